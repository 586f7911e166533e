"""To the provider and back: `/api/login/oidc` and its callback.

Above: the URL map. Below: `oidc.py`, people, and sign-ins that have begun, which are in the store so that any gateway
can finish them. Each is good once, and for the browser that began it.
"""

import logging
import secrets
from functools import partial
from typing import Annotated
from urllib.parse import quote, urlsplit

from msgspec import Meta, Struct

from jackfield.errors import BadRequest, Forbidden, NotFound, Refused
from jackfield.http.request import Request
from jackfield.http.response import Header, Response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.address_limit import AddressLimit
from jackfield.identity.authentication import Logins, cookie_in, login_cookie, login_in, set_cookie
from jackfield.identity.browser import own_path
from jackfield.identity.keys import digest_of
from jackfield.identity.oidc import CALLBACK, AuthorizationResponse, OidcProvider
from jackfield.identity.pages import as_page, element, page, redirect
from jackfield.identity.people import LIFETIME_SECONDS, People
from jackfield.identity.people_transactions import SIGN_IN_MS, begin_sign_in, take_sign_in
from jackfield.protocol.errors import error_headers, http_status
from jackfield.store import Store

log = logging.getLogger("jackfield")

BEGIN = "/api/login/oidc"
FLOW_COOKIE = "jackfield-oidc"
"""Marks the browser that began a sign-in."""
BURST, PER_SECOND = 100.0, 5.0
"""Sign-ins that an address may begin at once, and in every second after that."""
_Given = Annotated[str, Meta(max_length=8_000)]


class OidcQuery(Struct, frozen=True, kw_only=True):
    """Where to go afterwards: a path of this gateway."""

    return_to: str = ""
    again: str = ""
    """Set to be asked by the provider who one is, even if it knows: to sign in as somebody else."""
    moved: str = ""
    """Set where the browser was sent to the gateway's own address first."""


class CallbackQuery(Struct, frozen=True, kw_only=True):
    """The provider's answer."""

    state: _Given = ""
    code: _Given | None = None
    iss: _Given | None = None
    error: _Given | None = None
    error_description: _Given | None = None


class OidcApi:
    """Handlers of the two."""

    def __init__(
        self, provider: OidcProvider | None, people: People, store: Store, *, logins: Logins, url: str
    ) -> None:
        self._provider = provider
        self._people = people
        self._store = store
        self._logins = logins
        self._url = url
        self._limit = AddressLimit(
            burst=BURST,
            per_second=PER_SECOND,
            refusal="Too many sign-ins were begun from this address. Try again in a moment.",
        )

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        provider = self._configured()
        query = request.query(OidcQuery)
        return_to = own_path(query.return_to)
        if not query.moved and (request.header(b"host") or "").lower() != urlsplit(self._url).netloc.lower():
            # The provider sends the browser back to this address, and only cookies of this address come with it.
            again = "&again=yes" if query.again else ""
            return redirect(f"{self._url}{BEGIN}?moved=yes&return_to={quote(return_to, safe='')}{again}")
        self._limit.check(request.address)
        asked = await provider.begin(return_to, asks_anew=bool(query.again))
        browser = secrets.token_urlsafe(32)
        await self._store.write(partial(begin_sign_in, digest_of(asked.state), digest_of(browser), asked.begun))
        cookie = set_cookie(FLOW_COOKIE, browser, secure=request.is_https, lifetime=SIGN_IN_MS // 1000)
        return redirect(asked.url, headers=((b"set-cookie", cookie),))

    async def finish(self, request: Request) -> Response:
        """Take the provider's answer and sign in whom it names."""
        provider = self._configured()
        try:
            return await self._signed_in(request, provider)
        except Refused as refusal:
            again = element("a", "Sign in again", href="/sign-in?again=yes", class_="button primary")
            return page(
                "You are not signed in",
                element("p", refusal.message, role="alert"),
                element("p", again),
                status=http_status(refusal),
                headers=(*error_headers(refusal), _forget(request)),
            )

    async def _signed_in(self, request: Request, provider: OidcProvider) -> Response:
        query = request.query(CallbackQuery)
        cookies, secure = request.header(b"cookie"), request.is_https
        browser = cookie_in(cookies, FLOW_COOKIE, secure=secure) or ""
        begun = await self._store.write(partial(take_sign_in, digest_of(query.state), digest_of(browser)))
        if begun is None:
            raise BadRequest(
                "This sign-in is used up or too old, or was begun in another browser. Sign in again.", param="state"
            )
        answer = AuthorizationResponse(
            state=query.state,
            code=query.code,
            iss=query.iss,
            error=query.error,
            error_description=query.error_description,
        )
        try:
            person = await provider.finish(answer, begun)
        except Refused as refusal:
            await self._logins.note_failure(request.address, "oidc", refusal.message)
            raise
        if not person.roles:
            await self._logins.note_failure(request.address, person.id, "No role at this gateway.")
            await self._people.sign_out(person.id)  # who has lost the last role
            raise Forbidden(
                f"You are known as {person.name} ({person.id}), but you have no role at this gateway. "
                "Ask whoever runs it for one: it goes by your groups or your verified email ([auth.roles])."
            )
        if (before := login_in(cookies, secure=secure)) is not None:
            await self._logins.close(before)
        login = secrets.token_urlsafe(32)
        await self._people.sign_in(person, digest_of(login))
        log.info("%s signed in with the roles %s", person.id, ", ".join(person.roles))
        cookie = (b"set-cookie", login_cookie(login, secure=secure, lifetime=LIFETIME_SECONDS))
        return redirect(begun.return_to, headers=(cookie, _forget(request)))

    def _configured(self) -> OidcProvider:
        if self._provider is None:
            raise NotFound("Nobody signs in by a provider here: the config has no [auth.oidc]. Sign in with a key.")
        return self._provider


def _forget(request: Request) -> Header:
    """The sign-in is over, one way or the other."""
    return b"set-cookie", set_cookie(FLOW_COOKIE, "", secure=request.is_https, lifetime=0)


def routes(provider: OidcProvider | None, people: People, store: Store, *, logins: Logins, url: str) -> list[Route]:
    """Every route of signing in by the provider."""
    api = OidcApi(provider, people, store, logins=logins, url=url)
    return [
        Route(
            method="GET",
            path=BEGIN,
            handler=as_page(api.begin),
            operation="begin_oidc",
            scope=None,
            is_page=True,
            tag="Identity",
            summary="Sign in by the provider of [auth.oidc]",
            query=OidcQuery,
            responses={303: ResponseSpec(description="To the provider", media="text/html")},
        ),
        Route(
            method="GET",
            path=CALLBACK,
            handler=as_page(api.finish),
            operation="finish_oidc",
            scope=None,
            is_page=True,
            tag="Identity",
            summary="Where the provider sends the browser back to",
            query=CallbackQuery,
            responses={303: ResponseSpec(description="Signed in", media="text/html")},
        ),
    ]
