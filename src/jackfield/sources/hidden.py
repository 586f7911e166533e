"""Characters that a person does not see and a model reads: control, zero-width, direction, tags. Pure.

Above: the sources of foreign tools. A description loses them; a schema whose names or values need them cannot be
offered, since a call with the cleaned name would be another call.
"""

import re
from typing import Any

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_FOR_READERS = frozenset({"description", "title", "$comment", "examples"})
"""Words of JSON Schema whose values change nothing but what is read."""


class Unremovable(Exception):
    """A hidden character stands where its removal would change what the schema means."""


def is_hidden_in(text: str) -> bool:
    return _HIDDEN.search(text.replace("\r\n", "\n")) is not None


def has_hidden(value: Any) -> bool:
    """Whether something hidden is anywhere in this JSON."""
    if isinstance(value, str):
        return is_hidden_in(value)
    if isinstance(value, dict):
        return any(is_hidden_in(key) or has_hidden(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(has_hidden, value))


def cleaned(text: str) -> str:
    return _HIDDEN.sub("", text.replace("\r\n", "\n"))


def cleaned_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as agents may see it. Raises `Unremovable`."""
    result = _cleaned(schema, for_readers=False)
    assert isinstance(result, dict)
    return result


def _cleaned(value: Any, *, for_readers: bool) -> Any:
    if isinstance(value, str):
        if for_readers:
            return cleaned(value)
        if is_hidden_in(value):
            raise Unremovable
        return value
    if isinstance(value, list):
        return [_cleaned(inner, for_readers=for_readers) for inner in value]
    if isinstance(value, dict):
        if any(is_hidden_in(key) for key in value):
            raise Unremovable
        return {
            key: _cleaned(inner, for_readers=for_readers or _is_for_readers(key, inner)) for key, inner in value.items()
        }
    return value


def _is_for_readers(key: str, inner: Any) -> bool:
    """A property may be called `title` too; its schema is an object."""
    return key in _FOR_READERS and not isinstance(inner, dict)
