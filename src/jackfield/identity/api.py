"""Signing in and out: a one-time code or a key becomes a cookie with an opaque id.

Above: the URL map. Below: the keyring for codes and keys, `Logins` for what the cookie means.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.errors import BadRequest, Unauthenticated
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ANYBODY_KNOWN, ResponseSpec, Route
from jackfield.identity.authentication import UNKNOWN_KEY, Logins, Throttle, key_in, login_cookie, login_in
from jackfield.identity.keys import Credential, Keyring
from jackfield.identity.people import People
from jackfield.model.ids import owner_of
from jackfield.model.principal import Principal


class LoginBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The code of the link that the gateway printed. Without it, send a key in a header."""

    code: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class SignedIn(Struct, frozen=True, kw_only=True):
    """Who you are now."""

    principal: str
    name: str
    """A person's name; else the key's."""
    email: str | UnsetType = UNSET
    """A person's, if the provider verified it."""
    roles: tuple[str, ...] = ()
    """A person's, as they were at the last login."""
    scopes: list[str]


class SignInWays(Struct, frozen=True, kw_only=True):
    """How people can sign in besides keys."""

    oidc: str | None
    """How the provider of `[auth.oidc]` is called; None: there is none."""


_body = BodyReader(LoginBody, required=False)


class LoginApi:
    """Handlers of `/api/login` and `/api/logout`."""

    def __init__(
        self, keyring: Keyring, logins: Logins, throttle: Throttle, *, people: People, provider: str | None
    ) -> None:
        self._keyring = keyring
        self._people = people
        self._provider = provider
        self._logins = logins
        self._throttle = throttle

    async def log_in(self, request: Request) -> Response:
        """Exchange a code, or the key in the headers, for a cookie."""
        body = await _body.read(request)
        request.hand_over(owner_of(body.code or ""))
        try:
            credential = self._credential(request, body.code)
        except Unauthenticated as refusal:
            await self._logins.note_failure(request.address, "key" if body.code is None else "code", refusal.message)
            raise
        login = await self._logins.open(credential)
        cookie = (b"set-cookie", login_cookie(login, secure=request.is_https))
        return json_response(self._signed_in(credential.principal), headers=(cookie,))

    async def show_login(self, request: Request) -> Response:
        """Whose cookie or key this is."""
        return json_response(self._signed_in(request.principal))

    async def list_sign_ins(self, _request: Request) -> Response:
        """How people can sign in, for a page that asks them to."""
        return json_response(SignInWays(oidc=self._provider))

    async def log_out(self, request: Request) -> Response:
        """End the login of this cookie."""
        if (login := login_in(request.header(b"cookie"), secure=request.is_https)) is not None:
            await self._logins.close(login)
        cookie = (b"set-cookie", login_cookie(None, secure=request.is_https))
        return EmptyResponse(204, [cookie, (b"cache-control", b"no-store")])

    def _credential(self, request: Request, code: str | None) -> Credential:
        if code is not None:
            credential = self._keyring.take_code(code.rpartition(".")[2])
            if credential is None:
                raise Unauthenticated(
                    "The code is used up or too old. Paste a key, or start the gateway again for a new link.",
                    param="code",
                )
            return credential
        key = key_in(request.headers)
        if key is None:
            raise BadRequest("Give the code of the printed link, or a key in a header.", param="code")
        credential = self._keyring.credential(key)
        self._throttle.check(request.address, key, None if credential is None else credential.principal)
        if credential is None:
            raise Unauthenticated(UNKNOWN_KEY)
        return credential

    def _signed_in(self, principal: Principal) -> SignedIn:
        user, scopes = self._people.user(principal.name), sorted(principal.scopes)
        if user is None:
            return SignedIn(principal=principal.name, name=principal.name, scopes=scopes)
        email = UNSET if user.email is None else user.email
        return SignedIn(principal=user.id, name=user.name, email=email, roles=user.roles, scopes=scopes)


def routes(
    keyring: Keyring, logins: Logins, throttle: Throttle, *, people: People, provider: str | None
) -> list[Route]:
    """Every route of logins. `provider`: how the provider is called that people sign in with."""
    api = LoginApi(keyring, logins, throttle, people=people, provider=provider)
    return [
        Route(
            method="POST",
            path="/api/login",
            handler=api.log_in,
            scope=None,
            takes_key=True,
            tag="Identity",
            summary="Exchange the code of a printed link, or a key, for a cookie",
            body=LoginBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="Signed in", type=SignedIn, headers={"Set-Cookie": "The login"})},
        ),
        Route(
            method="GET",
            path="/api/login",
            handler=api.show_login,
            scope=ANYBODY_KNOWN,
            tag="Identity",
            summary="Who you are, by the cookie or the key",
            responses={200: ResponseSpec(description="Signed in", type=SignedIn)},
        ),
        Route(
            method="GET",
            path="/api/login/ways",
            handler=api.list_sign_ins,
            scope=None,
            tag="Identity",
            summary="How people can sign in, besides with a key",
            responses={200: ResponseSpec(description="The ways", type=SignInWays)},
        ),
        Route(
            method="POST",
            path="/api/logout",
            handler=api.log_out,
            scope=None,
            tag="Identity",
            summary="End the login of the cookie",
            responses={204: ResponseSpec(description="Signed out")},
        ),
    ]
