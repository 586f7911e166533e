"""HTML pages that the gateway makes itself: sign-in, consent, refusals. They work without JavaScript.

    page("Sign in", element("p", "Text is escaped."), form)

Above: handlers of pages. Below: nothing. Every text is escaped where it enters an element, and loses its hidden
characters; what comes out of `element` is markup. No page may be framed, stored, or load anything.
"""

import base64
import hashlib
from collections.abc import Iterable
from functools import wraps
from html import escape

from msgspec import Struct

from jackfield.errors import Refused
from jackfield.http.request import Handler, Request
from jackfield.http.response import NO_STORE, BytesResponse, EmptyResponse, Header, Response
from jackfield.model.redaction import cut
from jackfield.protocol.errors import error_headers, http_status

_STYLE = """
:root{color-scheme:light dark;--ground:#f7f7f8;--paper:#fff;--ink:#1d2024;--quiet:#5c6370;--line:#868c96;
--accent:#0b62c4;--on-accent:#fff;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--ground:#15171a;--paper:#1c1f23;--ink:#e6e8eb;--quiet:#9aa2ad;--line:#727a85;
--accent:#6cb2ff;--on-accent:#0c1420;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{width:calc(100% - 32px);max-width:30rem;margin:10vh auto;padding:24px;
background:var(--paper);border:1px solid var(--line);border-radius:8px;overflow-wrap:anywhere}
h1{margin:0 0 16px;font-size:24px;line-height:1.25}
h2{margin:24px 0 8px;font-size:16px}
p,ul,fieldset,dl,form{margin:0 0 16px}
main>:last-child{margin-bottom:0}
.brand{margin-bottom:4px;color:var(--quiet);font-size:14px}
fieldset{border:1px solid var(--line);border-radius:6px;padding:8px 16px}
dt{font-weight:600}
dd{margin:0 0 8px}
label{display:block;margin-bottom:4px}
.choice{display:flex;margin:8px 0}
a{color:var(--accent)}
input[type=text],input[type=password]{width:100%;min-height:44px;margin-bottom:16px;padding:8px;font:inherit;
color:inherit;background:var(--ground);border:1px solid var(--line);border-radius:6px}
input[type=checkbox],input[type=radio]{flex:none;width:20px;height:20px;margin:2px 8px 0 0}
button,.button{display:inline-block;min-height:44px;margin:0 8px 8px 0;padding:9px 16px;font:inherit;cursor:pointer;
text-decoration:none;color:var(--ink);background:var(--ground);border:1px solid var(--line);border-radius:6px}
.primary{color:var(--on-accent);background:var(--accent);border-color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
pre{margin:0 0 16px;padding:8px 12px;white-space:pre-wrap;overflow-wrap:anywhere;
font:14px/1.5 ui-monospace,monospace;background:var(--ground);border:1px solid var(--line);border-radius:6px}
.quiet{color:var(--quiet);font-size:14px}
.fault{color:var(--bad)}
""".strip().replace("\n", "")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
LONGEST_NAME = 200
_VOID = frozenset({"input", "br", "meta"})


class Html(Struct, frozen=True):
    """Markup, as opposed to text."""

    markup: str


def element(name: str, /, *children: "str | Html", **attributes: "str | bool | None") -> Html:
    """One element. Text is escaped; `class_` and `for_` lose their underscore; True is an attribute without a value."""
    opening = "".join(
        f" {key.removesuffix('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{joined(children).markup}</{name}>")


def joined(children: "Iterable[str | Html]") -> Html:
    """Several pieces as one."""
    return Html("".join(child.markup if isinstance(child, Html) else escape(visible(child)) for child in children))


def visible(text: str) -> str:
    """Without control and hidden characters, such as those that change the direction of what follows."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " * c.isspace() for c in text)


def named(name: str, title: str | None) -> Html:
    """Somebody, as they know themselves: by their own name, where they have one, with that on record."""
    shown = element("strong", cut(title or name, LONGEST_NAME))
    return shown if title is None else joined((shown, f" ({cut(name, LONGEST_NAME)})"))


def hidden_field(name: str, value: str) -> Html:
    return element("input", type="hidden", name=name, value=value)


def page(
    title: str,
    *content: "str | Html",
    status: int = 200,
    form_targets: Iterable[str] = (),
    go_on: str | None = None,
    headers: Iterable[Header] = (),
) -> Response:
    """A whole page, with its heading.

    `form_targets`: origins or schemes (`https://client.example`, `cursor:`) that a form of this page leads to by a
    redirect; Chromium refuses others. `go_on`: where the browser goes by itself at once, as a navigation of its own.
    """
    refresh = () if go_on is None else (element("meta", http_equiv="refresh", content=f"0; url={go_on}"),)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        *refresh,
        element("title", f"{title} · Jackfield"),
        Html(f"<style>{_STYLE}</style>"),
    )
    body = element("body", element("main", element("p", "Jackfield", class_="brand"), element("h1", title), *content))
    markup = "<!doctype html>" + element("html", head, body, lang="en").markup
    return BytesResponse(status, (*page_headers(form_targets), *headers), markup.encode())


def page_headers(form_targets: Iterable[str] = ()) -> tuple[Header, ...]:
    """The headers of every page."""
    targets = " ".join(["'self'", *(target for target in form_targets if not set(target) & set(" ;,'\"\r\n\t"))])
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {targets}; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    return (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode("ascii", "ignore")),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"same-origin"),
        NO_STORE,
    )


def refusal_page(refusal: Refused, *, title: str = "This did not work") -> Response:
    """What was refused, for a person."""
    status, headers = http_status(refusal), error_headers(refusal)
    kept = [header for header in headers if header[0] != b"content-type"]
    return page(title, element("p", refusal.message, role="alert"), status=status, headers=kept)


def as_page(handler: Handler) -> Handler:
    """The same handler, with its refusals as pages."""

    @wraps(handler)
    async def shown(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refusal:
            return refusal_page(refusal)

    return shown


def redirect(url: str, *, headers: Iterable[Header] = ()) -> Response:
    """Go there with GET. `url` is one that the gateway made or checked."""
    if not url.isascii() or not url.isprintable():
        raise ValueError(url)
    return EmptyResponse(303, [(b"location", url.encode()), NO_STORE, *headers])
