"""Signatures of the Standard Webhooks specification: who sent a request, and when."""

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"


def signing_key(secret: str) -> bytes:
    """The key that a secret stands for: `whsec_` and base64, or any text as it is."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def signed_headers(body: bytes, *, key: bytes, message_id: str, timestamp: int) -> dict[str, str]:
    """The three headers of a signed request. `timestamp` is in seconds."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{digest}"}
