"""One-shot urls: who holds the token of a call may answer it, or allow it, without a key.

The token is the call's id with a signature by a key that all gateways of one database share, so any of them takes it
and nobody can make one. It works once because a call is allowed once and settled once. What a token is for is signed
too: one that allows a call does not answer it afterwards.
"""

import hmac
from hashlib import sha256
from typing import Literal

from jackfield.store.gateways import Cluster

Purpose = Literal["callback", "approval"]
PURPOSES: tuple[Purpose, ...] = ("callback", "approval")


class SignedLinks:
    """Signs call ids and reads them back."""

    def __init__(self, cluster: Cluster, *, base_url: str) -> None:
        self._cluster = cluster
        self._base_url = base_url

    def url_for(self, call_id: str, *, purpose: Purpose = "callback") -> str:
        return f"{self._base_url}/api/v1/callbacks/{self.token_for(call_id, purpose=purpose)}"

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
        return hmac.new(self._cluster.signing_key.encode(), f"{purpose}:{call_id}".encode(), sha256).hexdigest()
