"""The pages of a login: what it is for, the way to the authorization server, and the way back.

Above: the URL map. Below: `flows.py`, and the browser with who is signed in. A link holds no secret: what counts is who
is signed in, in which browser.
"""

from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from jackfield.connections.connections import CALLBACK_PATH, DOCUMENT_PATH
from jackfield.connections.flows import LoginFlows, LoginOffer
from jackfield.connections.oauth.registration import client_document
from jackfield.errors import BadRequest, Forbidden, Unauthenticated
from jackfield.http.request import MAX_PARAMETERS, Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.authentication import login_in
from jackfield.identity.browser import Browser, sign_in_first, signed_in_as
from jackfield.identity.keys import digest_of
from jackfield.identity.pages import LONGEST_NAME, Html, as_page, element, named, page
from jackfield.model.principal import Principal
from jackfield.model.redaction import cut
from jackfield.protocol.errors import http_status


class ConnectPages:
    """Handlers of `/connect`."""

    def __init__(self, flows: LoginFlows, browser: Browser, *, public_url: str) -> None:
        self._flows = flows
        self._browser = browser
        self._public_url = public_url

    async def show_login(self, request: Request) -> Response:
        """What the login is for, and a button."""
        flow_id = request.part("id")
        path = f"/connect/{quote(flow_id, safe='')}"
        principal = await self._browser.principal_of(request)
        if principal is None:
            return sign_in_first(path)
        try:
            offer = await self._flows.look(flow_id, principal)
        except Forbidden as refusal:
            return _not_yours(refusal, principal, path)
        token = self._browser.form_token(request)
        host = urlsplit(offer.source.url).netloc
        form = element(
            "form",
            token.field,
            element("button", f"Go on to the login at {host}", type="submit", class_="primary"),
            method="post",
            action=path,
        )
        return page(
            f"Log in at {offer.source.name}",
            *_what_for(offer, host, principal),
            form,
            signed_in_as(principal, path),
            headers=token.headers,
        )

    async def begin_login(self, request: Request) -> Response:
        """To the authorization server."""
        await self._browser.read_form(request)
        principal, browser = await self._who(request)
        url = await self._flows.begin(request.part("id"), principal, browser=browser)
        link = element("a", "Continue", href=url, class_="button primary", rel="noreferrer")
        # A page of its own, because a redirect would be bound by what forms of the page before may lead to.
        return page("On to the login", element("p", "Your browser goes on by itself."), link, go_on=url)

    async def finish_login(self, request: Request) -> Response:
        """The way back: the login is made, and what waited for it runs."""
        answer = _parameters(request)
        principal, browser = await self._who(request)
        offer = await self._flows.finish(answer, principal, browser=browser)
        if await self._browser.principal_of(request) is None:
            await self._flows.take_back(offer)
            raise Unauthenticated("You were signed out meanwhile, so the login was not kept. Sign in, and begin again.")
        runs = f" {offer.tool} runs now." if offer.tool else ""
        whose = "everybody who may use it" if not offer.whose else f"calls of {cut(offer.whose, LONGEST_NAME)}"
        return page(
            "You are connected",
            element("p", f"The gateway is logged in at {offer.source.name}, for {whose}.{runs}"),
            element("p", "You can close this page."),
        )

    async def show_document(self, _request: Request) -> Response:
        """Who the gateway is, for authorization servers that look it up by its url."""
        document = client_document(
            f"{self._public_url}{DOCUMENT_PATH}",
            redirect_uri=f"{self._public_url}{CALLBACK_PATH}",
            home=self._public_url,
        )
        return json_response(document)

    async def _who(self, request: Request) -> tuple[Principal, str]:
        """Who is signed in, and the digest of that sign-in, which nobody else has."""
        principal = await self._browser.principal_of(request)
        login = login_in(request.header(b"cookie"), secure=request.is_https)
        if principal is None or login is None:
            raise Unauthenticated("You are not signed in here any more. Sign in, and open the link of the login again.")
        return principal, digest_of(login)


def _what_for(offer: LoginOffer, host: str, principal: Principal) -> list[Html]:
    name = element("strong", offer.source.name)
    why = f" ({host}) needs a login."
    if offer.tool is not None:
        what = element("p", "A call of ", element("strong", cut(offer.tool, LONGEST_NAME)), " waits: ", name, why)
    else:
        what = element("p", name, why)
    if not offer.whose:
        return [what, element("p", "Everybody who may use this source will use this login.")]
    is_own = offer.whose == principal.on_record
    whose = named(principal.name, principal.title) if is_own else element("strong", cut(offer.whose, LONGEST_NAME))
    return [what, element("p", "The login is for calls of ", whose, ", and for nobody else's.")]


def _not_yours(refusal: Forbidden, principal: Principal, path: str) -> Response:
    return page(
        "This login is not yours",
        element("p", refusal.message, role="alert"),
        signed_in_as(principal, path),
        status=http_status(refusal),
    )


def _parameters(request: Request) -> dict[str, str]:
    """The authorization server's answer. One of its parameters twice is no answer."""
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise BadRequest("The answer of the authorization server cannot be read. Start the login again.") from None
    if len(dict(pairs)) != len(pairs):
        raise BadRequest("The answer of the authorization server says something twice. Start the login again.")
    return dict(pairs)


def routes(flows: LoginFlows, browser: Browser, *, public_url: str) -> list[Route]:
    """Every route of the login pages."""
    api = ConnectPages(flows, browser, public_url=public_url)
    text = {200: ResponseSpec(description="The page", media="text/html")}
    routes = [
        Route(
            method="GET",
            path=CALLBACK_PATH,
            handler=as_page(api.finish_login),
            scope=None,
            is_page=True,
            tag="Identity",
            summary="Where authorization servers send the browser back to",
            responses=text,
        ),
        Route(
            method="GET",
            path="/connect/{id}",
            handler=as_page(api.show_login),
            scope=None,
            is_page=True,
            tag="Identity",
            summary="What a login is for, with a button to make it",
            responses=text,
        ),
        Route(
            method="POST",
            path="/connect/{id}",
            handler=as_page(api.begin_login),
            scope=None,
            is_page=True,
            tag="Identity",
            summary="On to the authorization server",
            responses=text,
        ),
    ]
    if public_url.startswith("https://"):
        routes.append(
            Route(
                method="GET",
                path=DOCUMENT_PATH,
                handler=api.show_document,
                scope=None,
                tag="Identity",
                summary="Who the gateway is at authorization servers (client id metadata document)",
                responses={200: ResponseSpec(description="The document", type=dict[str, Any])},
            )
        )
    return routes
