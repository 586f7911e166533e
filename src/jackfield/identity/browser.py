"""A person's browser at the pages of the gateway: who is signed in there, and forms that only our own pages send.

Above: handlers of pages. Below: logins, and cookies. A form carries a token made from the browser's login or, before
there is one, from a short-lived cookie; a foreign page knows neither.
"""

import hashlib
import hmac
import re
import secrets
from urllib.parse import parse_qs, quote

from msgspec import Struct

from jackfield.errors import BadRequest, Forbidden, TooLarge, WrongMediaType
from jackfield.http.bodies import read_bytes
from jackfield.http.request import Request
from jackfield.http.response import Header, Response
from jackfield.identity.authentication import Logins, cookie_in, login_in, set_cookie
from jackfield.identity.keys import Credential
from jackfield.identity.pages import Html, element, hidden_field, named, redirect
from jackfield.model.principal import Principal

FORM_COOKIE = "jackfield-form"
FORM_SECONDS = 3600
TOKEN_FIELD = "form_token"  # noqa: S105 - the name of a field
MOST_BYTES = 64 * 1024
MOST_FIELDS = 500
LONGEST_PATH = 4000
_OWN_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*")
"""ASCII without blanks, control characters and `\\`, which browsers read as `/`."""
_FORM_MEDIA = b"application/x-www-form-urlencoded"


class Form(Struct, frozen=True):
    """The fields of a form that one of our own pages sent."""

    fields: dict[str, list[str]]

    def one(self, name: str) -> str:
        """A field's only value; empty where there is none."""
        values = self.fields.get(name, [])
        if len(values) > 1:
            raise BadRequest(f"The field '{name}' is given twice. Go back and send the form again.", param=name)
        return values[0] if values else ""

    def all(self, name: str) -> list[str]:
        """Every value of a field, as of several checkboxes."""
        return self.fields.get(name, [])


class FormToken(Struct, frozen=True, kw_only=True):
    """What a page with a form needs: the field to put into it, and the headers to send the page with."""

    field: Html
    headers: tuple[Header, ...]


class Browser:
    """What the gateway's pages know of the browser in front of them."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    async def principal_of(self, request: Request) -> Principal | None:
        """Who is signed in by cookie; None: nobody, or not any more. Keys in headers do not count."""
        credential = await self.credential_of(request)
        return None if credential is None else credential.principal

    async def credential_of(self, request: Request) -> Credential | None:
        """The same, for what is to end together with this login."""
        login = login_in(request.header(b"cookie"), secure=request.is_https)
        return None if login is None else await self._logins.credential(login)

    def form_token(self, request: Request) -> FormToken:
        """A token for a form on the page that answers this request."""
        headers: tuple[Header, ...] = ()
        secret = _secret_of(request)
        if secret is None:
            secret = secrets.token_urlsafe(32)
            cookie = set_cookie(FORM_COOKIE, secret, secure=request.is_https, lifetime=FORM_SECONDS)
            headers = ((b"set-cookie", cookie),)
        return FormToken(field=hidden_field(TOKEN_FIELD, _token(secret)), headers=headers)

    async def read_form(self, request: Request) -> Form:
        """The form in the body. Raises `Forbidden` unless a page of this gateway sent it, to this very browser."""
        if request.headers.get(b"origin") is not None and not request.is_from_own_page:
            raise Forbidden("The form was sent by a page of another site. Open the gateway's own page.")
        form = await read_fields(request)
        secret = _secret_of(request)
        given = form.one(TOKEN_FIELD)
        if secret is None or not hmac.compare_digest(given.encode(), _token(secret).encode()):
            raise Forbidden(
                "The form is too old, or was made for another sign-in. Go back, reload the page and send it again. "
                "The browser must accept cookies."
            )
        return form


def own_path(path: str, *, param: str = "return_to") -> str:
    """`path`, if it leads to this gateway and nowhere else; else raises `BadRequest`. Empty: the console."""
    if not path:
        return "/"
    if len(path) > LONGEST_PATH or _OWN_PATH.fullmatch(path) is None:
        raise BadRequest(
            f"'{param}' must be a path of this gateway, such as /. It begins with one '/' and has no blanks.",
            param=param,
        )
    return path


def signed_in_as(principal: Principal, return_to: str) -> Html:
    """Who is signed in, with a link to the sign-in page for whoever should be somebody else."""
    url = f"/sign-in?return_to={quote(return_to, safe='')}"
    switch = element("a", "Sign in as somebody else", href=url)
    return element("p", "You are signed in as ", named(principal.name, principal.title), ". ", switch, class_="quiet")


def sign_in_first(return_to: str) -> Response:
    """To the sign-in page, and from there back to `return_to`, a path of this gateway with its query."""
    return redirect(f"/sign-in?return_to={quote(return_to, safe='')}")


def _secret_of(request: Request) -> str | None:
    """What this browser has and no page of another site knows: its login, or the cookie of its forms."""
    cookies, secure = request.header(b"cookie"), request.is_https
    return login_in(cookies, secure=secure) or cookie_in(cookies, FORM_COOKIE, secure=secure)


def _token(secret: str) -> str:
    return hmac.new(secret.encode(), b"form", hashlib.sha256).hexdigest()


async def read_fields(request: Request) -> Form:
    """The form in the body, whoever sent it."""
    media = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != _FORM_MEDIA:
        raise WrongMediaType(f"Send the form as {_FORM_MEDIA.decode()}.")
    body = await read_bytes(request)
    if len(body) > MOST_BYTES:
        raise TooLarge(f"The form is larger than {MOST_BYTES:,} bytes. Send less.")
    try:
        return Form(parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError:
        raise BadRequest("The form is not UTF-8 in percent encoding, or has too many fields. Send it again.") from None
