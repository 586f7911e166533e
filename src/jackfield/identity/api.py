"""Signing in and out: a one-time code or a key becomes a cookie with an opaque id.

Above: `routes.py`. Below: the keyring for codes and keys, `logins.py` for what the cookie means.
"""

from typing import Annotated

from msgspec import Meta, Struct

from jackfield.errors import BadRequest, Unauthenticated
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.identity.authentication import key_in, login_cookie, login_in
from jackfield.identity.keys import Credential


class LoginBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The code of the link that the gateway printed. Without it, send a key in a header."""

    code: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class SignedIn(Struct, frozen=True, kw_only=True):
    """Who you are now."""

    principal: str
    scopes: list[str]


_body = BodyReader(LoginBody, required=False)


async def log_in(visit: Request) -> Response:
    """Exchange a code, or the key in the headers, for a cookie."""
    body = await _body.read(visit)
    credential = _who(visit, body.code)
    login = await visit.reception.logins.open(credential)
    principal = credential.principal
    answer = SignedIn(principal=principal.name, scopes=sorted(principal.scopes))
    return json_response(answer, headers=((b"set-cookie", login_cookie(login, secure=visit.is_https)),))


async def show_login(visit: Request) -> Response:
    """Whose cookie or key this is."""
    principal = visit.principal
    return json_response(SignedIn(principal=principal.name, scopes=sorted(principal.scopes)))


async def log_out(visit: Request) -> Response:
    """End the login of this cookie."""
    if (login := login_in(visit.header(b"cookie"), secure=visit.is_https)) is not None:
        await visit.reception.logins.close(login)
    return EmptyResponse(
        204, [(b"set-cookie", login_cookie(None, secure=visit.is_https)), (b"cache-control", b"no-store")]
    )


def _who(visit: Request, code: str | None) -> Credential:
    keyring = visit.gateway.keyring
    if code is not None:
        credential = keyring.take_code(code)
        if credential is None:
            raise Unauthenticated(
                "The code is used up or too old. Paste a key, or start the gateway again for a new link.",
                param="code",
            )
        return credential
    key = key_in(visit.headers)
    if key is None:
        raise BadRequest("Give the code of the printed link, or a key in a header.", param="code")
    credential = keyring.credential(key)
    visit.reception.throttle.check(visit.address, key, None if credential is None else credential.principal)
    if credential is None:
        raise Unauthenticated("The key is not one of this gateway's. Check it for typing errors.")
    return credential
