"""What a service says of one tool beside its schema, as our metadata. Pure.

Above: `reading.py`. Below: `spelling.py`. What we do not know is passed over; what we know must make sense, since a
tool is better left out than offered without its limits.
"""

from typing import Any

import msgspec

from jackfield.model.tool import CostEstimate, Metadata
from jackfield.parsing import snake_keys
from jackfield.sources.hidden import cleaned
from jackfield.sources.manifest.spelling import plain, plain_object, snake_deep

_METADATA = frozenset(Metadata.__struct_fields__)
_COSTS = frozenset(cost.value for cost in CostEstimate)
LONGEST_SHOWN = 100


def metadata_of(said: Any, *, is_protojson: bool) -> Metadata:
    """What the service says of a tool. What we do not know is passed over; what we know must make sense."""
    if said is None:
        return Metadata()
    if not isinstance(said, dict):
        raise ValueError("its metadata is no object")  # noqa: TRY004 - told like every other fault of a manifest
    spelled = snake_keys(said)
    known = {key: value for key, value in spelled.items() if key in _METADATA and value is not None}
    if is_protojson:
        known.setdefault("enabled_by_default", False)  # protojson leaves out what is false
    for limit in ("timeout_seconds", "rate_limit_per_minute"):
        if known.get(limit) == 0:
            del known[limit]
    cost = known.pop("cost_estimate", None)
    if isinstance(cost, str) and cost in _COSTS:  # a later version may have words of its own
        known["cost_estimate"] = cost
    for name, read in _READ.items():
        if name in known:
            known[name] = read(known[name])
    metadata = msgspec.convert(known, Metadata, strict=False)
    if metadata.rate_limit_per_minute is not None and metadata.rate_limit_per_minute < 0:
        raise ValueError("its rate_limit_per_minute is below zero")
    return metadata


def _example(example: Any) -> dict[str, Any]:
    if not isinstance(example, dict):
        raise ValueError("one of its examples is no object")  # noqa: TRY004 - told like every other fault
    spelled = snake_keys(example)
    shown = {
        "description": cleaned(text_of(spelled.get("description")) or ""),
        "input": plain_object(spelled.get("input") or {}),
    }
    if spelled.get("expected_output") is not None:
        shown["expected_output"] = plain(spelled["expected_output"])
    return shown


def _tags(tags: Any) -> Any:
    return [cleaned(text_of(tag) or "") for tag in tags] if isinstance(tags, list) else tags


def _examples(examples: Any) -> Any:
    return [_example(example) for example in examples] if isinstance(examples, list) else examples


_READ = {"tags": _tags, "examples": _examples, "async_behavior": snake_deep}


def text_of(value: Any) -> str | None:
    """Text, or nothing; anything else raises `ValueError`."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{shown(value)} stands where text was expected")
    return value


def shown(value: Any) -> str:
    """Foreign text in a sentence: quoted, on one line, and short."""
    text = " ".join(cleaned(value if isinstance(value, str) else repr(value)).split())
    return f"'{text[:LONGEST_SHOWN]}{'…' if len(text) > LONGEST_SHOWN else ''}'"
