"""Keeps the operator's secrets out of what tools say.

A tool that echoes a secret it was given, in a result or an error, must not hand it on. Exact values of eight characters
and more are replaced; shorter ones would match by chance.
"""

from collections.abc import Callable, Collection

import msgspec

from jackfield.errors import JackfieldError
from jackfield.model.call import Done, Failed
from jackfield.model.redaction import REDACTED, without_secrets
from jackfield.sources.base import Progress

SHORTEST = 8


class Redactor:
    """Replaces secrets. `secrets` is asked each time, because more may have been read since."""

    def __init__(self, secrets: Callable[[], Collection[str]]) -> None:
        self._secrets = secrets
        self._known = -1
        self._texts: tuple[str, ...] = ()

    def outcome(self, outcome: Done | Failed) -> Done | Failed:
        """The same outcome without any secret in it."""
        self._refresh()
        if not self._texts:
            return outcome
        result = None if outcome.result is None else without_secrets(outcome.result, self._texts)
        if isinstance(outcome, Failed):
            return Failed(outcome.code, self.text(outcome.message), result)
        assert result is not None
        return Done(result)

    def clean(self, refusal: JackfieldError) -> None:
        """Take secrets out of a refusal's sentence: why a source is down may be in its server's own words."""
        refusal.args = (self.text(refusal.message), *refusal.args[1:])

    def text(self, text: str) -> str:
        self._refresh()
        for secret in self._texts:
            text = text.replace(secret, REDACTED)
        return text

    def progress(self, progress: Progress) -> Progress:
        """What is told while a call runs reaches as many as its result."""
        if progress.message is None:
            return progress
        return msgspec.structs.replace(progress, message=self.text(progress.message))

    def _refresh(self) -> None:
        secrets = self._secrets()
        if len(secrets) != self._known:
            self._known = len(secrets)
            # The longest first, so that a secret within another does not leave half of it behind.
            self._texts = tuple(sorted((s for s in secrets if len(s) >= SHORTEST), key=len, reverse=True))
