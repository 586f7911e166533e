"""What an entry may hold: bounded in size, without secrets, and with nothing that a database would change."""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jackfield.audit.types import canonical

MOST_BYTES = 8_192
"""Of `before` and of `after`."""
MOST_CHARACTERS = 1_000
"""Of one text in them; of an actor or a subject a quarter."""
MOST_ITEMS = 200
MOST_DEPTH = 12
LARGEST_EXACT = 2**53
HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"(authorization|cookie|credential|passw(or)?d|passphrase|secret|token|api_?key|private_?key|vault_?key|digest)s?$"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Redact = Callable[[str], str]


def clean_name(text: str, redact: Redact) -> str:
    """An actor, action or subject."""
    return _CONTROL.sub("\ufffd", _clean_text(text, redact))[: MOST_CHARACTERS // 4]


def clean_json(value: Any, redact: Redact) -> str:
    """`before` or `after` as canonical JSON. What is too large is replaced by its size and digest."""
    text = canonical(_clean(msgspec.to_builtins(value, str_keys=True), redact, MOST_DEPTH))
    if len(text) > MOST_BYTES:
        text = canonical({"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(), "too_large": True})
    return text.decode()


def _clean(value: Any, redact: Redact, depth: int) -> Any:
    if isinstance(value, str):
        return _clean_text(value, redact)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value if abs(value) <= LARGEST_EXACT else str(value)  # infinity and NaN too
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        items = list(value.items())[:MOST_ITEMS]
        return {_clean_text(str(name), redact): _clean_field(name, one, redact, depth) for name, one in items}
    return [_clean(one, redact, depth - 1) for one in list(value)[:MOST_ITEMS]]


def _clean_field(name: object, value: Any, redact: Redact, depth: int) -> Any:
    is_secret = _SECRET_NAME.search(str(name).lower().replace("-", "_"))
    if is_secret and isinstance(value, str) and value and not _is_reference(value):
        return HIDDEN
    return _clean(value, redact, depth - 1)


def _is_reference(value: str) -> bool:
    """`${NAME}` names a secret and is none."""
    return re.fullmatch(r"[A-Za-z ]*\$\{[A-Za-z_][A-Za-z0-9_]*\}", value) is not None


def _clean_text(text: str, redact: Redact) -> str:
    cleaned = redact(text).encode("utf-8", "replace").decode()
    return cleaned if len(cleaned) <= MOST_CHARACTERS else f"{cleaned[: MOST_CHARACTERS - 1]}…"
