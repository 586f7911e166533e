"""Requests to token endpoints, with the DPoP nonces that servers hand out."""

from collections import OrderedDict
from collections.abc import Mapping

from jackfield.connections.oauth.http import JsonAnswer, OAuthHttp
from jackfield.connections.oauth.jose import dpop_proof
from jackfield.connections.oauth.tokens import client_authentication
from jackfield.connections.oauth.types import AuthorizationServer, Client
from jackfield.outgoing.urls import named_origin

MAX_NONCES = 64
MAX_NONCE = 512


class TokenEndpoints:
    """Asks token endpoints, each with the nonce that its server gave last."""

    def __init__(self, http: OAuthHttp) -> None:
        self._http = http
        self._nonces: OrderedDict[str, str] = OrderedDict()

    async def ask(
        self,
        server: AuthorizationServer,
        client: Client | None,
        form: Mapping[str, str],
        *,
        resource: str | None,
        dpop_key: str | None = None,
    ) -> JsonAnswer:
        """Send one request, once more if the server wants a DPoP nonce first. `client` None: nobody authenticates."""
        url = server.token_endpoint
        for _ in range(2):
            body, headers = ({}, {}) if client is None else client_authentication(server, client)
            whole = {**form, **({} if resource is None else {"resource": resource}), **body}
            had = self.nonce(url)
            if dpop_key is not None:
                headers["dpop"] = dpop_proof(dpop_key, "POST", url, nonce=had)
            answer = await self._http.post_form(url, whole, headers=headers)
            self.keep_nonce(url, answer.headers)
            wants_nonce = (answer.body or {}).get("error") == "use_dpop_nonce"
            if dpop_key is None or not wants_nonce or self.nonce(url) == had:
                break
        return answer

    def nonce(self, url: str) -> str | None:
        """The nonce for a proof to this url's origin."""
        return self._nonces.get(str(named_origin(url)))

    def keep_nonce(self, url: str, headers: Mapping[str, str]) -> None:
        """Keep the nonce of a response, if there is one, for the next proof."""
        nonce = headers.get("dpop-nonce")
        if nonce and len(nonce) <= MAX_NONCE:
            where = str(named_origin(url))
            self._nonces[where] = nonce
            self._nonces.move_to_end(where)
            if len(self._nonces) > MAX_NONCES:
                self._nonces.popitem(last=False)
