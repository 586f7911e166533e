"""A browser without JavaScript: cookies, redirects, and the forms of pages, sent as their buttons would.

    browser = Browser()
    page = browser.open(login_url)
    page = browser.send(page, key="…")

Above: the legs, where somebody has to sign in, log in or consent. The real one is Chromium, in `make test`.
"""

from collections.abc import Mapping
from html.parser import HTMLParser
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import urljoin, urlsplit

import httpx2
from msgspec import Struct

MAX_REDIRECTS = 30
ANSWER_SECONDS = 30.0
YES = ("allow", "approve", "accept", "yes")
"""What a button says that agrees."""


class Form(Struct, kw_only=True):
    """What a page asks for."""

    action: str
    method: str
    fields: dict[str, str]
    """What would be sent if nobody wrote anything, without buttons."""
    asked: list[str]
    """Names of the fields that somebody has to write into."""
    buttons: list[tuple[str, str]]
    """Names and values of its named buttons, in the order of the page."""


class Page(Struct, frozen=True, kw_only=True):
    """Where a browser has come to."""

    url: str
    status: int
    text: str
    forms: tuple[Form, ...]

    @property
    def is_fault(self) -> bool:
        return self.status >= HTTPStatus.BAD_REQUEST


class _Reader(HTMLParser):
    """The forms of a page, and where it goes by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.goes_on: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            method = given.get("method", "get").lower()
            self.forms.append(Form(action=given.get("action", ""), method=method, fields={}, asked=[], buttons=[]))
        elif tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            self.goes_on = given.get("content", "").partition("url=")[2] or None
        elif self.forms and tag == "button" and given.get("name"):
            self.forms[-1].buttons.append((given["name"], given.get("value", "")))
        elif self.forms and tag == "input" and given.get("name"):
            self._read_input(self.forms[-1], given)

    def _read_input(self, form: Form, given: dict[str, str]) -> None:
        kind = given.get("type", "text")
        if kind == "submit":
            form.buttons.append((given["name"], given.get("value", "")))
        elif kind in ("checkbox", "radio"):
            if "checked" in given:
                form.fields[given["name"]] = given.get("value", "on")
        else:
            form.fields[given["name"]] = given.get("value", "")
            if kind != "hidden":
                form.asked.append(given["name"])


class Browser:
    """One person's browser, with cookies of its own."""

    def __init__(self, *, stops_at: str | None = None) -> None:
        """`stops_at`: a url that begins so is not opened; the page then has it, and nothing else."""
        self._stops_at = stops_at
        self._http = httpx2.Client(timeout=ANSWER_SECONDS, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def cookies(self) -> dict[str, str]:
        """By name, of all hosts."""
        return {cookie.name: cookie.value or "" for cookie in self._http.cookies.jar}

    def open(self, url: str) -> Page:
        """The page at the end of all redirects."""
        return self._page(url, self._http.get(url, headers=_ACCEPT))

    def send(self, page: Page, *, form: int = 0, button: str | None = None, **written: str) -> Page:
        """Write into a form of the page and press a button: the one with this value, else the first."""
        chosen = page.forms[form]
        pressed = next((pair for pair in chosen.buttons if button in (None, pair[1])), None)
        fields = {**chosen.fields, **written, **(dict([pressed]) if pressed else {})}
        url = urljoin(page.url, chosen.action)
        if chosen.method != "post":
            return self._page(url, self._http.get(url, params=fields, headers=_ACCEPT))
        parts = urlsplit(page.url)
        headers = {**_ACCEPT, "origin": f"{parts.scheme}://{parts.netloc}", "referer": page.url}
        return self._page(url, self._http.post(url, data=fields, headers=headers))

    def _page(self, url: str, answer: httpx2.Response) -> Page:
        for _ in range(MAX_REDIRECTS):
            if answer.is_redirect:
                url = urljoin(url, answer.headers["location"])
            else:
                reader = _Reader()
                reader.feed(answer.text)
                if reader.goes_on is None:
                    return Page(url=url, status=answer.status_code, text=answer.text, forms=tuple(reader.forms))
                url = urljoin(url, reader.goes_on)
            if self._stops_at is not None and url.startswith(self._stops_at):
                return Page(url=url, status=HTTPStatus.OK, text="", forms=())
            answer = self._http.get(url, headers=_ACCEPT)
        raise RuntimeError(f"{url} goes round in circles.")


_ACCEPT = {"accept": "text/html,*/*;q=0.8"}


def follow(browser: Browser, url: str, answers: Mapping[str, str]) -> Page:
    """Open a page and do what it and its followers ask, until one asks nothing more.

    Fields are filled in by name from `answers`; a form that asks for something else is passed over. Where a form has
    buttons for yes and for no, it is yes.
    """
    page = browser.open(url)
    for _ in range(MAX_REDIRECTS):
        if page.is_fault or not page.forms:
            return page
        able = [number for number, form in enumerate(page.forms) if all(name in answers for name in form.asked)]
        if not able:
            raise RuntimeError(f"{page.url} asks for {[form.asked for form in page.forms]}.")
        form = page.forms[able[0]]
        yes = next((value for _, value in form.buttons if value in YES), None)
        page = browser.send(page, form=able[0], button=yes, **{name: answers[name] for name in form.asked})
    raise RuntimeError(f"{page.url} never stops asking.")
