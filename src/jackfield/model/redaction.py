"""Secrets taken out of JSON that somebody else wrote, so that it stays JSON. Pure.

Above: the redaction of every outcome (`calls/redaction.py`), and sources that know more spellings of a secret.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

REDACTED = "[redacted]"


def without_secrets(raw: Raw, secrets: Iterable[str]) -> Raw:
    """The JSON with every secret replaced; the same object where there is none in it. Give the longest first."""
    body = bytes(raw)
    found = [secret for secret in secrets if _in_json(secret) in body]
    if not found:
        return raw
    if not any(map(_could_be_bare, found)):
        for secret in found:
            body = body.replace(_in_json(secret), REDACTED.encode())
        return Raw(body)
    return Raw(msgspec.json.encode(_cleaned(msgspec.json.decode(body), found)))


def _in_json(secret: str) -> bytes:
    return msgspec.json.encode(secret)[1:-1]


def _could_be_bare(secret: str) -> bool:
    """Whether JSON may have it outside quotes, as a number or part of one: then replacing the text is not enough."""
    return not set(secret) - set("0123456789+-.eE")


def _cleaned(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, dict):
        return {_text(key, secrets): _cleaned(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner, secrets) for inner in value]
    if isinstance(value, str):
        return _text(value, secrets)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        written = msgspec.json.encode(value).decode()
        return REDACTED if any(secret in written for secret in secrets) else value
    return value


def _text(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text
