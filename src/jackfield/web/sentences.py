"""What is wrong with a body or a query, in words a client can act on.

Above: `visit.py` and `bodies.py`. Below: msgspec, whose messages these are made from.
"""

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from jackfield.errors import BadRequest
from jackfield.parsing import nearest

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.+?)`(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]+)`(?: - at `\$\.?(?P<path>[^`]*)`)?$")
_FAULT = re.compile(r"(?P<fault>.*?)(?: - at `(?:key in )?\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_LONGEST = 100


def bad_value(fault: msgspec.ValidationError, *, what: str, into: type[Any]) -> BadRequest:
    """A value of the wrong shape: which key, what is wrong with it, what would be right."""
    text = str(fault)
    if found := _UNKNOWN.match(text):
        key = _short(found["key"])
        known = [field.encode_name for field in msgspec.structs.fields(into)]
        cure = nearest(key, known) or f" Known here: {', '.join(known)}."
        return BadRequest(f"{what} has an unknown key '{key}'.{cure}", param=key)
    if found := _MISSING.match(text):
        return BadRequest(f"{what} needs the key '{found['key']}'. Add it.", param=found["key"])
    found = _FAULT.match(text)
    reason, path = (found["fault"], found["path"]) if found else (text, None)
    if "matching regex" in reason and (form := _form_of(into, path)) is not None:
        reason = f"it does not fit what it should be: {form}"
    place = f"'{_short(path)}' in {what[0].lower()}{what[1:]}" if path else what
    return BadRequest(f"{place} is not right: {reason[:1].lower()}{reason[1:]}.", param=_short(path) if path else None)


def _form_of(into: type[Any], key: str | None) -> str | None:
    """What the type says of a key in words: a pattern is for machines."""
    try:
        wanted = next((field.type for field in msgspec.structs.fields(into) if field.encode_name == key), None)
    except TypeError:  # not a struct
        return None
    return next((meta.description for meta in _metas(wanted) if meta.description), None)


def _metas(wanted: Any) -> Iterator[msgspec.Meta]:
    """Every `Meta` in a type, at any depth of unions."""
    yield from (meta for meta in getattr(wanted, "__metadata__", ()) if isinstance(meta, msgspec.Meta))
    for inner in get_args(wanted):
        if not isinstance(inner, msgspec.Meta):
            yield from _metas(inner)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
