"""What may not leave the gateway in a sentence about itself: the operator's secrets, and where things are on its disk.

Error responses, and the sanitizer for messages that say why a source is down or what is wrong with a tool file. What
tools themselves return is redacted by the pipeline. Above: the app and the handlers. Below: settings.
"""

import logging
import re
import secrets
from collections.abc import Callable, Collection
from pathlib import Path

from jackfield.errors import Refused, SourceUnavailable
from jackfield.http.response import BytesResponse, json_response
from jackfield.model.redaction import KnownSecrets
from jackfield.protocol.errors import ErrorAnswer, ErrorBody, error_body, error_headers, error_type, http_status
from jackfield.settings import Settings

_ABSOLUTE = re.compile(r"(?<![\w.:/~-])~?/(?:[^\s'\"<>|:,;()\[\]/]+/)*([^\s'\"<>|:,;()\[\]/]+)/?")
"""A path from the root, not one within a url or a relative one; its last part is kept."""


class Sanitizer:
    """Cleans sentences before strangers read them."""

    def __init__(self, secrets: Callable[[], Collection[str]], folders: tuple[Path, ...] = ()) -> None:
        self._secrets = KnownSecrets(secrets)
        self._roots = [f"{folder}/" for folder in folders]

    @classmethod
    def of(cls, settings: Settings) -> "Sanitizer":
        return cls(lambda: settings.secrets.used, (settings.data, settings.folder))

    def text(self, sentence: str) -> str:
        """The sentence without secrets, and with paths as the operator wrote them, or their last part only."""
        sentence = self._secrets.text(sentence)
        for root in self._roots:
            sentence = sentence.replace(root, "")
        return _ABSOLUTE.sub(r"…/\1", sentence)


log = logging.getLogger(__name__)

INTERNAL_ERROR = 500


def refusal_response(refusal: Refused, *, sanitizer: Sanitizer) -> BytesResponse:
    """The error response for a refusal. Why a source is down may name secrets and paths."""
    message = sanitizer.text(refusal.message) if isinstance(refusal, SourceUnavailable) else None
    body = ErrorAnswer(error=error_body(refusal, message))
    return json_response(body, status=http_status(refusal), headers=error_headers(refusal))


def crash_response(fault: BaseException, *, what: str) -> BytesResponse:
    """500: the client gets a reference and no detail, the log gets both."""
    return json_response(ErrorAnswer(error=crash_body(fault, what=what)), status=INTERNAL_ERROR)


def crash_body(fault: BaseException, *, what: str) -> ErrorBody:
    """What a client is told of a fault of ours, which is logged."""
    reference = secrets.token_hex(6)
    log.error("%s failed (reference %s)", what, reference, exc_info=fault)
    message = f"Something went wrong inside the gateway. Its log has the details under reference {reference}."
    return ErrorBody(type=error_type(INTERNAL_ERROR), code="internal_error", message=message, param=None)
