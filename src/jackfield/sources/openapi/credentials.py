"""What the operator lends to every request of a service, and how it is kept out of what comes back. Pure.

Above: `source.py` and `operations.py`. Below: `options.py`.
"""

from base64 import b64encode

from msgspec import Struct

from jackfield.model.call import Done, Failed
from jackfield.model.redaction import SecretForms
from jackfield.sources.openapi.options import ApiKey, Auth, Basic, Bearer

SHORTEST_HEADER = 8
"""Most headers of the config are no secrets; shorter values would be found by chance."""


class Credentials(Struct, frozen=True, kw_only=True):
    """Headers and query parameters that are the operator's, whatever a call's arguments say."""

    headers: dict[str, str] = {}
    params: tuple[tuple[str, str], ...] = ()
    secrets: SecretForms = SecretForms(())

    @property
    def header_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.headers)

    @property
    def param_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.params)

    def cleaned(self, outcome: Done | Failed) -> Done | Failed:
        """The outcome without them. A service may show a request as it got it."""
        if isinstance(outcome, Done):
            return Done(self.secrets.json(outcome.result))
        result = None if outcome.result is None else self.secrets.json(outcome.result, was_cut=True)
        return Failed(outcome.code, self.text(outcome.message), result)

    def text(self, text: str) -> str:
        return self.secrets.text(text)


def credentials_of(auth: Auth | None, headers: dict[str, str]) -> Credentials:
    """What `auth` and `headers` of the config come to."""
    match auth:
        case Bearer(token=token):
            return _lent({**headers, "Authorization": f"Bearer {token}"}, secrets=[token])
        case Basic(user=user, password=password):
            pair = b64encode(f"{user}:{password}".encode()).decode()
            return _lent({**headers, "Authorization": f"Basic {pair}"}, secrets=[pair, password])
        case ApiKey(name=name, value=value, place="header"):
            return _lent({**headers, name: value}, secrets=[value])
        case ApiKey(name=name, value=value):
            return _lent(headers, params=((name, value),), secrets=[value])
        case _:
            return _lent(headers, secrets=[])


def _lent(headers: dict[str, str], *, params: tuple[tuple[str, str], ...] = (), secrets: list[str]) -> Credentials:
    others = (value for value in headers.values() if len(value) >= SHORTEST_HEADER)
    return Credentials(headers=headers, params=params, secrets=SecretForms((*secrets, *others)))
