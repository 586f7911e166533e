"""The sign-in page: by the provider of `[auth.oidc]`, or with a key.

Above: the URL map. Below: the keyring, logins, and the browser's forms. Every sign-in makes a new login id, so a cookie
that somebody planted before is worth nothing after.
"""

from urllib.parse import quote

from msgspec import Struct

from jackfield.errors import Refused, Unauthenticated
from jackfield.http.request import Request
from jackfield.http.response import Response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.authentication import UNKNOWN_KEY, Logins, Throttle, login_cookie, login_in
from jackfield.identity.browser import Browser, own_path
from jackfield.identity.keys import Keyring
from jackfield.identity.pages import Html, as_page, element, hidden_field, joined, named, page, redirect
from jackfield.model.principal import Principal
from jackfield.protocol.errors import http_status


class SignInQuery(Struct, frozen=True, kw_only=True):
    """Where to go afterwards: a path of this gateway."""

    return_to: str = ""
    done: str = ""
    """Set after the form was sent: then the page goes on by itself."""
    again: str = ""
    """Set after the provider named somebody without a role: the provider is to ask anew."""


class SignInPage:
    """Handlers of `/sign-in`."""

    def __init__(
        self, keyring: Keyring, logins: Logins, throttle: Throttle, *, browser: Browser, provider: str | None
    ) -> None:
        """`provider`: how the provider is called that people sign in with, where there is one."""
        self._keyring = keyring
        self._logins = logins
        self._throttle = throttle
        self._browser = browser
        self._provider = provider

    async def show_sign_in(self, request: Request) -> Response:
        """The page; signed in already, it says as whom."""
        query = request.query(SignInQuery)
        return_to = own_path(query.return_to)
        principal = await self._browser.principal_of(request)
        if principal is not None and query.done:
            # A redirect would still belong to the form, and so be bound by the form-action of this page.
            return page("Signed in", _signed_in(principal, return_to), go_on=return_to)
        return self._page(request, return_to, principal=principal, again=bool(query.again))

    async def sign_in(self, request: Request) -> Response:
        """Take the key that was pasted."""
        form = await self._browser.read_form(request)
        return_to = own_path(form.one("return_to"))
        key = form.one("key").strip()
        try:
            credential = self._keyring.credential(key)
            self._throttle.check(request.address, key, None if credential is None else credential.principal)
            if credential is None:
                raise Unauthenticated(UNKNOWN_KEY)
        except Refused as refusal:
            if isinstance(refusal, Unauthenticated):
                await self._logins.note_failure(request.address, "key", refusal.message)
            return self._page(request, return_to, principal=None, fault=refusal)
        if (before := login_in(request.header(b"cookie"), secure=request.is_https)) is not None:
            await self._logins.close(before)
        login = await self._logins.open(credential)
        cookie = (b"set-cookie", login_cookie(login, secure=request.is_https))
        return redirect(f"/sign-in?done=yes&return_to={quote(return_to, safe='')}", headers=(cookie,))

    def _page(
        self,
        request: Request,
        return_to: str,
        *,
        principal: Principal | None,
        fault: Refused | None = None,
        again: bool = False,
    ) -> Response:
        token = self._browser.form_token(request)
        content: list[Html] = []
        if principal is not None:
            content += [_signed_in(principal, return_to), element("h2", "Sign in as somebody else")]
        if fault is not None:
            content.append(element("p", fault.message, class_="fault", role="alert"))
        if self._provider is not None:
            url = f"/api/login/oidc?return_to={quote(return_to, safe='')}"
            if principal is not None or again:
                url += "&again=yes"
            kind = "button primary" if principal is None else "button"
            link = element("a", f"Sign in with {self._provider}", class_=kind, href=url)
            content += [element("p", link), element("h2", "With a key")]
        content.append(
            element(
                "form",
                token.field,
                hidden_field("return_to", return_to),
                element("label", "Key", for_="key"),
                element("input", type="password", id="key", name="key", autocomplete="off", required=True),
                element("button", "Sign in", type="submit", class_="primary" if self._provider is None else None),
                method="post",
                action="/sign-in",
            )
        )
        status, headers = 200 if fault is None else http_status(fault), token.headers
        return page("Sign in", *content, status=status, headers=headers)


def _signed_in(principal: Principal, return_to: str) -> Html:
    go_on = element("a", "Continue", href=return_to, class_="button primary")
    return joined(
        (element("p", "You are signed in as ", named(principal.name, principal.title), "."), element("p", go_on))
    )


def routes(
    keyring: Keyring, logins: Logins, throttle: Throttle, *, browser: Browser, provider: str | None
) -> list[Route]:
    """Every route of the sign-in page."""
    api = SignInPage(keyring, logins, throttle, browser=browser, provider=provider)
    return [
        Route(
            method="GET",
            path="/sign-in",
            handler=as_page(api.show_sign_in),
            scope=None,
            is_page=True,
            tag="Identity",
            summary="The page to sign in at",
            query=SignInQuery,
            responses={200: ResponseSpec(description="The page", media="text/html")},
        ),
        Route(
            method="POST",
            path="/sign-in",
            handler=as_page(api.sign_in),
            scope=None,
            is_page=True,
            tag="Identity",
            summary="Sign in with a key, by the form of the page",
            responses={303: ResponseSpec(description="Signed in", media="text/html")},
            errors=(401, 429),
        ),
    ]
