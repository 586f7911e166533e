"""One-shot urls: who holds the token of a call may answer it, or allow it, without a key.

The token is the call's id with a signature by a key that all gateways of one database share, so any of them takes it
and nobody can make one. It works once because a call is allowed once and settled once. What a token is for is signed
too: one that allows a call does not answer it afterwards.
"""

import hmac
from hashlib import sha256
from typing import Literal

Purpose = Literal["callback", "approval"]
PURPOSES: tuple[Purpose, ...] = ("callback", "approval")


class Callbacks:
    """Signs call ids and reads them back."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def token_for(self, call_id: str, *, purpose: Purpose = "callback") -> str:
        return f"{call_id}.{self._signature(call_id, purpose)}"

    def read(self, token: str) -> tuple[str, Purpose] | None:
        """The call that the token is for, and what it lets one do; None for a token that is not ours."""
        call_id, _, signature = token.rpartition(".")
        for purpose in PURPOSES:
            if hmac.compare_digest(signature.encode(), self._signature(call_id, purpose).encode()):
                return call_id, purpose
        return None

    def _signature(self, call_id: str, purpose: Purpose) -> str:
        return hmac.new(self._key, f"{purpose}:{call_id}".encode(), sha256).hexdigest()
