"""One-shot urls: who holds the token of a call may answer it, without a key.

The token is the call's id with a signature by a key that all gateways of one database share, so any of them takes it
and nobody can make one. It works once because a call is settled once.
"""

import hmac
from hashlib import sha256


class Callbacks:
    """Signs call ids and reads them back."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def token_for(self, call_id: str) -> str:
        return f"{call_id}.{self._signature(call_id)}"

    def call_id_in(self, token: str) -> str | None:
        """The call that the token is for; None for a token that is not ours."""
        call_id, _, signature = token.rpartition(".")
        genuine = hmac.compare_digest(signature.encode(), self._signature(call_id).encode())
        return call_id if genuine else None

    def _signature(self, call_id: str) -> str:
        return hmac.new(self._key, b"callback:" + call_id.encode(), sha256).hexdigest()
