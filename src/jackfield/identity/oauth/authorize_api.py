"""`/oauth/authorize`: the person signs in, sees who asks for what, and decides.

Above: the URL map. Below: `authorization.py` reads the request, `consent_page.py` shows it, `Grants` keeps it.
Consent is asked for every time: a client on the person's machine cannot prove who it is, and refreshes without asking.
"""

from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode

from jackfield.errors import BadRequest, Forbidden
from jackfield.http.request import MAX_PARAMETERS, Request
from jackfield.http.response import Response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.browser import Browser, Form, sign_in_first
from jackfield.identity.keys import Credential
from jackfield.identity.oauth.addresses import Addresses, group_of
from jackfield.identity.oauth.authorization import PARAMETERS, Asker, Wanted, find_asker, wanted_in
from jackfield.identity.oauth.clients import Clients, is_document_url
from jackfield.identity.oauth.consent_page import Consent, GroupChoice, consent_page
from jackfield.identity.oauth.grants import Grants, held_scopes
from jackfield.identity.oauth.redirects import describe
from jackfield.identity.oauth.types import BY_KEY, NewGrant, OAuthError, Rights
from jackfield.identity.pages import as_page, element, page, redirect
from jackfield.model.principal import Principal

PATH = "/oauth/authorize"
GroupsOf = Callable[[Principal], list[GroupChoice]]
"""The groups of tools that a principal may know of."""


class AuthorizeApi:
    """Handlers of the authorization endpoint."""

    def __init__(
        self, clients: Clients, grants: Grants, *, addresses: Addresses, browser: Browser, groups_of: GroupsOf
    ) -> None:
        self._clients = clients
        self._grants = grants
        self._addresses = addresses
        self._browser = browser
        self._groups_of = groups_of

    async def show_consent(self, request: Request) -> Response:
        """The page that asks, after the person has signed in."""
        fields = _query(request)
        signed_in = await self._browser.credential_of(request)
        if signed_in is None and is_document_url(fields.get("client_id", "")):
            return _sign_in(request)  # nobody unknown makes the gateway fetch documents
        asker = await find_asker(fields, self._clients)
        try:
            wanted = wanted_in(fields, request, self._addresses)
            if signed_in is None:
                return _sign_in(request)
            consent = self._consent(request, asker, wanted, signed_in.principal)
        except OAuthError as fault:
            return self._refused(request, asker, fault)
        return self._page(request, consent, fields)

    async def decide(self, request: Request) -> Response:
        """What the person decided."""
        form = await self._browser.read_form(request)
        signed_in = await self._browser.credential_of(request)
        if signed_in is None or signed_in.principal.name != form.one("person"):
            raise Forbidden(
                "You are signed in as somebody else than when this page was made, so nothing was allowed. "
                "Begin again in the program that sent you here."
            )
        fields = {name: form.one(name) for name in PARAMETERS if name in form.fields}
        asker = await find_asker(fields, self._clients)
        try:
            wanted = wanted_in(fields, request, self._addresses)
            consent = self._consent(request, asker, wanted, signed_in.principal)
        except OAuthError as fault:
            return self._refused(request, asker, fault)
        if form.one("decision") != "allow":
            denied = OAuthError("access_denied", "The person did not allow it.")
            return redirect(self._error_url(request, asker, denied))
        return await self._allow(request, consent, form, fields, signed_in)

    async def _allow(
        self, request: Request, consent: Consent, form: Form, fields: dict[str, str], signed_in: Credential
    ) -> Response:
        scopes = tuple(scope for scope in (*consent.held, *consent.instead) if scope in form.all("allowed_scope"))
        if not scopes:
            return self._page(request, consent, fields, fault="Choose at least one thing that it may do, or deny.")
        known = {group.name for group in consent.groups}
        chosen = tuple(dict.fromkeys(form.all("allowed_group")))
        if not known.issuperset(chosen):
            raise BadRequest("The form names a group of tools that there is not. Go back and reload the page.")
        code = await self._grants.allow(
            NewGrant(
                client_id=consent.asker.client.id,
                client_name=consent.asker.client.name,
                principal=signed_in.principal.name,
                credential=signed_in.key,
                resource=consent.wanted.resource,
                rights=Rights(scopes=scopes, groups=chosen or None),
                client_auth=BY_KEY if consent.asker.client.auth_method == BY_KEY else None,
                redirect_uri=consent.asker.redirect_uri,
                challenge=consent.wanted.challenge,
            )
        )
        return redirect(consent.asker.answer(self._addresses.base(request), code=code))

    def _consent(self, request: Request, asker: Asker, wanted: Wanted, principal: Principal) -> Consent:
        """What the page shows to this person. Raises `OAuthError` for what they cannot give."""
        groups = tuple(self._groups_of(principal))
        group = group_of(wanted.resource)
        if group is not None and group not in {choice.name for choice in groups}:
            raise OAuthError("invalid_target", f"There is no group of tools '{group[:100]}' for '{principal.name}'.")
        held = held_scopes(principal, wanted.scopes)
        if not held:
            asked = ", ".join(wanted.scopes)
            raise OAuthError("access_denied", f"'{principal.name}' cannot give what was asked for: {asked}.")
        return Consent(
            asker=asker,
            wanted=wanted,
            person=principal.name,
            title=principal.title,
            held=held,
            instead=("read",) if "call" in held and "read" not in held else (),
            groups=groups,
            resource=self._addresses.resource(request, wanted.resource),
        )

    def _page(
        self, request: Request, consent: Consent, fields: dict[str, str], *, fault: str | None = None
    ) -> Response:
        again = f"{PATH}?{urlencode({name: fields[name] for name in PARAMETERS if name in fields})}"
        switch_to = f"/sign-in?{urlencode({'return_to': again})}"
        return consent_page(consent, fields, self._browser.form_token(request), switch_to=switch_to, fault=fault)

    def _refused(self, request: Request, asker: Asker, fault: OAuthError) -> Response:
        """Back to the client where the browser may be sent there unasked; else the person decides whether to go."""
        url = self._error_url(request, asker, fault)
        if asker.is_trusted:
            return redirect(url)
        target = describe(asker.redirect_uri)
        return page(
            "This did not work",
            element("p", fault.message, role="alert"),
            element("p", "The program that sent you here is told so if you go back to it: ", target.where),
            element("p", element("a", f"Go to {target.where}", href=url, rel="noreferrer")),
            status=fault.status,
        )

    def _error_url(self, request: Request, asker: Asker, fault: OAuthError) -> str:
        issuer = self._addresses.base(request)
        return asker.answer(issuer, error=fault.error, error_description=_ascii(fault.message))


def _query(request: Request) -> dict[str, str]:
    """The parameters, each given once."""
    text = request.scope["query_string"]
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise BadRequest("The query string is not UTF-8 in percent encoding, or far too long.") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadRequest("The program that sent you here gave a parameter twice. Nothing was done.")
    return fields


def _sign_in(request: Request) -> Response:
    return sign_in_first(f"{PATH}?{request.scope['query_string'].decode('ascii')}")


def _ascii(text: str) -> str:
    """Characters that an error description may have (RFC 6749, 4.1.2.1)."""
    return "".join(c if " " <= c <= "~" and c not in '"\\' else "'" if c == '"' else "?" for c in text)


def page_routes(api: AuthorizeApi) -> list[Route]:
    """The authorization endpoint."""
    shown = {200: ResponseSpec(description="The page", media="text/html")}
    return [
        Route(
            method=method,
            path=PATH,
            handler=as_page(handler),
            scope=None,
            is_page=True,
            tag="OAuth",
            summary=summary,
            responses=shown,
        )
        for method, handler, summary in (
            ("GET", api.show_consent, "Asks a person whether a client may act for them"),
            ("POST", api.decide, "What the person decided"),
        )
    ]
