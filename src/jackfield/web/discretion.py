"""What may not leave the gateway in a sentence about itself: the operator's secrets, and where things are on its disk.

Above: the doors that show why a source is down or what is wrong with a tool file. Below: settings. A tool's own words
are not its business; those the pipeline looks after.
"""

import re
from collections.abc import Callable, Collection
from pathlib import Path

from jackfield.model.redaction import KnownSecrets
from jackfield.settings import Settings

_ABSOLUTE = re.compile(r"(?<![\w.:/~-])~?/(?:[^\s'\"<>|:,;()\[\]/]+/)*([^\s'\"<>|:,;()\[\]/]+)/?")
"""A path from the root, not one within a url or a relative one; its last part is kept."""


class Discretion:
    """Cleans sentences before strangers read them."""

    def __init__(self, secrets: Callable[[], Collection[str]], folders: tuple[Path, ...] = ()) -> None:
        self._secrets = KnownSecrets(secrets)
        self._roots = [f"{folder}/" for folder in folders]

    @classmethod
    def of(cls, settings: Settings) -> "Discretion":
        return cls(lambda: settings.secrets.used, (settings.data, settings.folder))

    def text(self, sentence: str) -> str:
        """The sentence without secrets, and with paths as the operator wrote them, or their last part only."""
        sentence = self._secrets.text(sentence)
        for root in self._roots:
            sentence = sentence.replace(root, "")
        return _ABSOLUTE.sub(r"…/\1", sentence)
