"""Signatures of the Standard Webhooks specification: who sent a request, and when.

Above: notifications and hooks at a URL, and the settings of both. The signature is over `id.timestamp.body`.
"""

import base64
import hashlib
import hmac

PREFIX = "whsec_"
SHORTEST_KEY = 16
"""Bytes."""


def signing_key(secret: str) -> bytes:
    """The key that a secret stands for. Raises `ValueError` for what is none."""
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    if len(key) < SHORTEST_KEY:
        raise ValueError(f"it is shorter than {SHORTEST_KEY} bytes")
    return key


def signed_headers(body: bytes, *, secret: str, message_id: str, timestamp: int) -> dict[str, str]:
    """What a receiver knows the sender by. `timestamp` is in seconds."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    digest = base64.b64encode(hmac.digest(signing_key(secret), signed, hashlib.sha256)).decode()
    return message_headers(message_id, timestamp) | {"webhook-signature": f"v1,{digest}"}


def message_headers(message_id: str, timestamp: int) -> dict[str, str]:
    """What every message has, signed or not."""
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
