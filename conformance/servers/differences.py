"""Two views of a server, compared field by field: every difference as a path. Pure.

A view is JSON. What the gateway adds to results under keys of its own, and what every result of the newer revision has,
is no difference; what a server says differently each time is masked in both.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

OURS = ("jackfield/", "io.modelcontextprotocol/serverInfo")
"""What keys of `_meta` begin with that a gateway puts there itself."""
OF_THE_REVISION = frozenset({"resultType", "ttlMs", "cacheScope"})
"""What every result has since 2026-07-28."""
DEFAULTS = {"isError": False, "mode": "form"}
"""What a member says that is left out: a result that is no error, a question that is a form."""
MISSING = "(nothing)"
MAX_SHOWN = 200


class Mask(Struct, frozen=True):
    """A text that a server gives differently each time."""

    pattern: str
    instead: str
    reason: str


class Expected(Struct, frozen=True):
    """Differences that are meant: a pattern for their paths, and why."""

    path: str
    reason: str
    revision: str = ""
    """Only in this one."""


class Difference(Struct, frozen=True):
    """One field that is not the same."""

    path: str
    direct: Any
    through: Any

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.direct)} became {_shown(self.through)}"


def differences(direct: Any, through: Any, *, masks: tuple[Mask, ...] = ()) -> list[Difference]:
    """What a client sees differently through the gateway."""
    return list(_compared("", normal(direct, masks), normal(through, masks)))


def unexpected(
    found: list[Difference], expected: tuple[Expected, ...], *, revision: str
) -> tuple[list[Difference], list[Expected]]:
    """Those that nobody meant, and what was meant and is no more."""
    expected = tuple(each for each in expected if each.revision in ("", revision))
    rest = [one for one in found if not any(re.fullmatch(each.path, one.path) for each in expected)]
    stale = [each for each in expected if not any(re.fullmatch(each.path, one.path) for one in found)]
    return rest, stale


def normal(value: Any, masks: tuple[Mask, ...] = ()) -> Any:
    """Without what is ours or the revision's, and with the same text for what differs each time."""
    if isinstance(value, str):
        for mask in masks:
            value = re.sub(mask.pattern, mask.instead, value)
        return value
    if isinstance(value, list):
        return [normal(each, masks) for each in value]
    if not isinstance(value, dict):
        return value
    found = {
        key: normal(each, masks)
        for key, each in value.items()
        if key not in OF_THE_REVISION and not (key in DEFAULTS and each == DEFAULTS[key])
    }
    meta = found.get("_meta")
    if isinstance(meta, dict):
        found["_meta"] = {key: each for key, each in meta.items() if not key.startswith(OURS)}
        if not found["_meta"]:
            del found["_meta"]
    return found


def _compared(path: str, direct: Any, through: Any) -> Iterator[Difference]:
    if isinstance(direct, dict) and isinstance(through, dict):
        for key in dict.fromkeys((*direct, *through)):
            yield from _compared(f"{path}.{key}" if path else str(key), _member(direct, key), _member(through, key))
    elif isinstance(direct, list) and isinstance(through, list):
        for index in range(max(len(direct), len(through))):
            yield from _compared(f"{path}[{index}]", _item(direct, index), _item(through, index))
    elif not _same(direct, through):
        yield Difference(path, direct, through)


def _same(direct: Any, through: Any) -> bool:
    """Numbers are the same if their values are; true is no number."""
    return isinstance(direct, bool) is isinstance(through, bool) and bool(direct == through)


def _member(value: Mapping[str, Any], key: str) -> Any:
    return value.get(key, MISSING)


def _item(value: list[Any], index: int) -> Any:
    return value[index] if index < len(value) else MISSING


def _shown(value: Any) -> str:
    text = value if value == MISSING else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)"
