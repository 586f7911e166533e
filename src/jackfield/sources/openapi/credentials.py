"""What the operator lends to every request of a service, and how it is kept out of what comes back. Pure.

Above: `source.py` and `operations.py`. Below: `options.py`.
"""

from base64 import b64encode
from urllib.parse import quote

from msgspec import Struct

from jackfield.model.call import Done, Failed
from jackfield.model.redaction import REDACTED, without_secrets
from jackfield.sources.openapi.options import ApiKey, Auth, Basic, Bearer

SHORTEST = 8
"""Shorter values would be found by chance."""


class Credentials(Struct, frozen=True, kw_only=True):
    """Headers and query parameters that are the operator's, whatever a call's arguments say."""

    headers: dict[str, str] = {}
    params: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    """In every spelling in which a service could say them again; the longest first."""

    @property
    def header_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.headers)

    @property
    def param_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.params)

    def cleaned(self, outcome: Done | Failed) -> Done | Failed:
        """The outcome without them. A service may show a request as it got it."""
        if isinstance(outcome, Done):
            return Done(without_secrets(outcome.result, self.secrets))
        result = None if outcome.result is None else without_secrets(outcome.result, self.secrets)
        return Failed(outcome.code, self.text(outcome.message), result)

    def text(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        return text


def credentials_of(auth: Auth | None, headers: dict[str, str]) -> Credentials:
    """What `auth` and `headers` of the config come to."""
    match auth:
        case Bearer(token=token):
            return _lent({**headers, "Authorization": f"Bearer {token}"}, secrets=[token, *headers.values()])
        case Basic(user=user, password=password):
            pair = b64encode(f"{user}:{password}".encode()).decode()
            return _lent({**headers, "Authorization": f"Basic {pair}"}, secrets=[pair, password, *headers.values()])
        case ApiKey(name=name, value=value, place="header"):
            return _lent({**headers, name: value}, secrets=[value, *headers.values()])
        case ApiKey(name=name, value=value):
            return _lent(headers, params=((name, value),), secrets=[value, *headers.values()])
        case _:
            return _lent(headers, secrets=list(headers.values()))


def _lent(headers: dict[str, str], *, params: tuple[tuple[str, str], ...] = (), secrets: list[str]) -> Credentials:
    spelled = {way for secret in secrets for way in (secret, quote(secret, safe=""))}
    kept = tuple(sorted((secret for secret in spelled if len(secret) >= SHORTEST), key=len, reverse=True))
    return Credentials(headers=headers, params=params, secrets=kept)
