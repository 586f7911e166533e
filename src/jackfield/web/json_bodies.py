"""What a JSON body must be: its media type, its shape, its depth. Pure.

Above: `bodies.py`, which reads bodies of the gateway's doors, and `jackfield.discovery`, which reads other services'.
Below: msgspec.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from jackfield.errors import BadRequest, WrongMediaType
from jackfield.web.sentences import bad_value

T = TypeVar("T")

DEEPEST = 200
"""Levels of nesting that a body may have; more is no honest request and would exhaust a parser's stack."""
_PLAIN_JSON = b"application/json"


def check_media_type(header: bytes | None) -> None:
    """Raise `WrongMediaType` unless the body says it is JSON."""
    if header == _PLAIN_JSON:
        return
    media = (header or b"").partition(b";")[0].strip().lower()
    if media != _PLAIN_JSON and not (media.startswith(b"application/") and media.endswith(b"+json")):
        given = f"'{media.decode('latin-1')[:100]}'" if media else "no Content-Type"
        raise WrongMediaType(f"The body is declared as {given}. Send JSON with 'Content-Type: application/json'.")


def decoded(body: bytes, decode: Callable[[bytes], T], *, into: type[Any]) -> T:
    """The body as `decode` reads it. Every fault is a `BadRequest` that says what is wrong."""
    try:
        return decode(body)
    except msgspec.ValidationError as fault:
        raise bad_value(fault, what="The body", into=into) from None
    except msgspec.DecodeError as fault:
        raise BadRequest(f"The body is not valid JSON: {_lower_first(str(fault))}.") from None
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8. Encode it so.") from None
    except RecursionError:
        raise _too_deep() from None


def check_depth(parts: Iterable[Any]) -> None:
    """Raise `BadRequest` for values that are nested absurdly deep."""
    level: list[Any] = [value for value in parts if isinstance(value, (dict, list))]
    for _ in range(DEEPEST - 1):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> BadRequest:
    return BadRequest(f"The body is nested more than {DEEPEST} levels deep. Flatten it.")


def _lower_first(text: str) -> str:
    """Within a sentence; `JSON` stays as it is."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
