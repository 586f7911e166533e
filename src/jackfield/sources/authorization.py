"""The login with which a source makes its requests. Above: sources that speak HTTP. Below: `connections/`, lent by the
gateway as `SourceContext.logins`.

A source asks for headers before each request, and says so when the server refuses them. Both raise `LoginNeeded` when
only a person can help; the call that needed it then waits as `pending_login`. When a login was made or has ended, the
sources are told by `SourceRegistry.login_changed`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from typing import NoReturn, Protocol, TypeVar

from jackfield.errors import LoginNeeded
from jackfield.outgoing.urls import named_origin

MOST_SENDS = 3
"""How often one request is sent that the server refuses before it acts; each time with other headers."""


class Authorization(Protocol):
    """One login at one source: a principal's own, or the one for all."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers that authorize one request. Raises `LoginNeeded`."""

    async def refused(self, status: int, headers: Mapping[str, str], *, sent: Mapping[str, str]) -> bool:
        """The server refused a request (401, or 403) before it acted; `headers` are its answer's, `sent` ours.

        True: there are other headers now, send it again. False: that was not about the login. Raises `LoginNeeded`.
        """


class SourceLogins(Protocol):
    """Knows every source's logins."""

    def of(self, source: str, principal: str) -> Authorization | None:
        """What authorizes this principal's requests to the source; None: the source has `auth = "none"`."""

    def is_per_user(self, source: str) -> bool:
        """Whether each caller has a login of their own there."""

    async def last_principal(self, source: str) -> str | None:
        """Whose own login there was made or used last, to list with; None: nobody has one. Waits for no person."""

    def is_missing(self, source: str, principal: str, scopes: Collection[str] = ()) -> bool:
        """Whether somebody has to log in before this principal's calls of the source can run, as far as this gateway
        knows: there is no login, or one that does not allow these scopes.
        """


class NoLogins:
    """Where no source needs a login."""

    def of(self, source: str, principal: str) -> None:  # noqa: ARG002
        return None

    def is_per_user(self, source: str) -> bool:  # noqa: ARG002
        return False

    async def last_principal(self, source: str) -> None:  # noqa: ARG002
        return None

    def is_missing(self, source: str, principal: str, scopes: Collection[str] = ()) -> bool:  # noqa: ARG002
        return False


class WithoutLogin:
    """Requests without a login, to see what a server shows to everybody."""

    def __init__(self, source: str) -> None:
        self._source = source

    async def headers(self, method: str, url: str) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    async def refused(self, status: int, headers: Mapping[str, str], *, sent: Mapping[str, str]) -> NoReturn:  # noqa: ARG002
        raise LoginNeeded(f"Source '{self._source}' needs a login.", source=self._source, principal="")


class Answered(Protocol):
    """The head of an HTTP response."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def url(self) -> str: ...


A = TypeVar("A", bound=Answered)


async def send_authorized(
    authorization: Authorization,
    method: str,
    url: str,
    send: Callable[[Mapping[str, str]], Awaitable[A]],
    *,
    drop: Callable[[A], Awaitable[None]] | None = None,
) -> A:
    """Send a request with a login; again where the server refused it before it acted and there are other headers.

    `drop` closes a response that is not used. Any other response is final. Raises `LoginNeeded`, and what `send` does.
    """
    sends = 0
    while True:
        sends += 1
        sent = await authorization.headers(method, url)
        response = await send(sent)
        try:
            if not is_refusal(response, of=url):
                return response
            is_other = await authorization.refused(response.status, response.headers, sent=sent)
        except BaseException:
            if drop is not None:
                await drop(response)
            raise
        if not is_other or sends == MOST_SENDS:
            return response
        if drop is not None:
            await drop(response)


def is_refusal(response: Answered, *, of: str) -> bool:
    """Whether the server at this url wants another login. What a redirect elsewhere leads to has had none."""
    if response.status == HTTPStatus.FORBIDDEN:
        wants_other = "insufficient_scope" in response.headers.get("www-authenticate", "")
    else:
        wants_other = response.status == HTTPStatus.UNAUTHORIZED
    return wants_other and named_origin(response.url) == named_origin(of)


def with_login(headers: Mapping[str, str], login: Mapping[str, str]) -> dict[str, str]:
    """Headers with those of a login over them, whatever the case of their names."""
    taken = {name.lower() for name in login}
    return {**{name: value for name, value in headers.items() if name.lower() not in taken}, **login}


async def listing_logins(source: str, logins: SourceLogins, *, last_user: str | None) -> AsyncIterator[Authorization]:
    """The logins with which a source's list is tried to be read, one after the other.

    The one for all, else none; or first none, then the callers' own that were made or used last.
    """
    without = WithoutLogin(source)
    if not logins.is_per_user(source):
        shared = logins.of(source, "")
        if shared is not None:
            yield shared
        yield without
        return
    yield without
    for principal in dict.fromkeys((last_user, await logins.last_principal(source))):
        own = None if principal is None else logins.of(source, principal)
        if own is not None:
            yield own


def how_to_log_in(source: str, *, is_per_user: bool) -> str:
    """For a source whose list is shown after a login only."""
    who = "Log in" if is_per_user else "An administrator logs in"
    return f"The server shows what it offers after a login only. {who} with 'jackfield login {source}'."
