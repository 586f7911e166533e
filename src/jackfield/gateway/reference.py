"""`GET /docs`: the HTTP reference as one page, made from the OpenAPI document. It loads nothing, from nowhere.

Above: the URL map. Below: `identity/pages.py`, which escapes. The page works without JavaScript; a few lines of it,
allowed by their hash, filter the list.
"""

import asyncio
import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from jackfield.http.request import Request
from jackfield.http.response import BytesResponse, Header, Response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.pages import Html, element, joined

_STYLE = """
:root{color-scheme:light dark;--ground:#fbfaf8;--paper:#fff;--ink:#1d1c1a;--quiet:#66625b;--line:#d5d0c7;
--accent:#8a3d00}
@media (prefers-color-scheme:dark){:root{--ground:#161513;--paper:#1f1d1b;--ink:#ece8e1;--quiet:#a8a298;--line:#45403a;
--accent:#f0a060}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:24px;overflow-wrap:anywhere}
h1{margin:0 0 8px;font-size:28px;line-height:1.25}
h2{margin:32px 0 8px;font-size:20px}
h3{margin:16px 0 4px;font-size:16px}
p{margin:0 0 12px}
a{color:var(--accent)}
code,pre{font:14px/1.5 ui-monospace,monospace}
pre{margin:0 0 12px;padding:8px 12px;overflow-x:auto;background:var(--ground);border:1px solid var(--line);
border-radius:6px}
details{margin:0 0 8px;padding:8px 16px;background:var(--paper);border:1px solid var(--line);border-radius:6px}
summary{cursor:pointer;min-height:28px}
table{width:100%;border-collapse:collapse;margin:0 0 12px}
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600}
th,td:not(:last-child){overflow-wrap:break-word}
input{width:100%;min-height:44px;padding:8px;font:inherit;color:inherit;background:var(--paper);
border:1px solid var(--line);border-radius:6px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.quiet{color:var(--quiet)}
.method{display:inline-block;min-width:4.5em;font-weight:600}
""".strip().replace("\n", "")
_SCRIPT = """
const field=document.querySelector('#filter');
const said=document.querySelector('#found');
const items=[...document.querySelectorAll('main details')];
const words=items.map(item=>item.textContent.toLowerCase());
function filter(){
const wanted=field.value.toLowerCase().split(/\\s+/).filter(Boolean);
let found=0;
items.forEach((item,at)=>{item.hidden=!wanted.every(word=>words[at].includes(word));found+=!item.hidden;});
for(const part of document.querySelectorAll('main section'))part.hidden=!part.querySelector('details:not([hidden])');
said.textContent=wanted.length?`${found} found`:'';
}
function show(){const item=document.getElementById(decodeURIComponent(location.hash.slice(1)));
if(item&&item.tagName==='DETAILS'){field.value='';filter();item.open=true;item.scrollIntoView();}}
document.querySelector('#search').hidden=false;
field.addEventListener('input',filter);
addEventListener('hashchange',show);
show();
""".strip()
_METHODS = ("get", "put", "post", "patch", "delete")
_CONSTRAINTS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "{}",
}
_JSON = "application/json"
DEEPEST = 12


def _plain_and_compressed(document: Callable[[], dict[str, Any]]) -> tuple[bytes, bytes]:
    whole = reference_page(document()).encode()
    return whole, gzip.compress(whole, mtime=0)


def routes(document: Callable[[], dict[str, Any]]) -> list[Route]:
    """The one route of the reference; the page is made when it is first asked for."""
    kept: list[bytes] = []

    async def show_reference(request: Request) -> Response:
        if not kept:
            kept[:] = await asyncio.to_thread(_plain_and_compressed, document)
        if "gzip" in (request.header(b"accept-encoding") or ""):
            return BytesResponse(200, (*_HEADERS, (b"content-encoding", b"gzip")), kept[1])
        return BytesResponse(200, _HEADERS, kept[0])

    return [
        Route(
            method="GET",
            path="/docs",
            handler=show_reference,
            scope=None,
            is_page=True,
            tag="Reference",
            summary="The HTTP reference as a page",
            responses={200: ResponseSpec(description="A page", media="text/html")},
        )
    ]


def reference_page(document: dict[str, Any]) -> str:
    """The whole page."""
    info, schemas = document["info"], document["components"]["schemas"]
    by_tag: dict[str, list[Html]] = {tag["name"]: [] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                operation = item[method]
                by_tag[operation["tags"][0]].append(_operation(method, path, operation))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"HTTP reference · {info['title']}"),
        Html(f"<style>{_STYLE}</style>"),
    )
    main = element(
        "main",
        element("h1", f"{info['title']} {info['version']}: HTTP reference"),
        element(
            "p",
            "Most requests need a key: ",
            element("code", "Authorization: Bearer KEY"),
            " or ",
            element("code", "x-api-key: KEY"),
            ". The same as a document: ",
            element("a", "/openapi.json", href="/openapi.json"),
            " (with a key).",
        ),
        _search(),
        element("nav", *_links(by_tag), aria_label="Sections"),
        *(
            element("section", element("h2", tag, id=_anchor(tag)), *operations)
            for tag, operations in by_tag.items()
            if operations
        ),
        element(
            "section",
            element("h2", "Schemas", id="schemas"),
            *(_schema(name, schema) for name, schema in sorted(schemas.items())),
        ),
    )
    body = element("body", main, Html(f"<script>{_SCRIPT}</script>"))
    return "<!doctype html>" + element("html", head, body, lang="en").markup


def _search() -> Html:
    return element(
        "p",
        element("label", "Filter by words", for_="filter"),
        element("input", type="search", id="filter", autocomplete="off"),
        element("span", "", id="found", class_="quiet", role="status"),
        id="search",
        hidden=True,
    )


def _links(by_tag: dict[str, list[Html]]) -> Iterator[Html | str]:
    for tag, operations in by_tag.items():
        if operations:
            yield element("a", tag, href=f"#{_anchor(tag)}")
            yield " · "
    yield element("a", "Schemas", href="#schemas")


def _anchor(tag: str) -> str:
    return "tag-" + "".join(character if character.isalnum() else "-" for character in tag.lower())


def _operation(method: str, path: str, operation: dict[str, Any]) -> Html:
    summary = element(
        "summary",
        element("code", method.upper(), class_="method"),
        element("code", path),
        " ",
        element("span", operation["summary"], class_="quiet"),
    )
    parts: list[Html] = []
    if description := operation.get("description"):
        parts.append(element("p", description.replace("`", "")))
    elif not operation["security"]:
        parts.append(element("p", "Needs no key."))
    parts.append(element("pre", _curl(method, path, operation)))
    if operation["parameters"]:
        rows = (
            (element("code", one["name"]), one["in"], _type(one["schema"]), _notes(one["schema"], one))
            for one in operation["parameters"]
        )
        parts += (element("h3", "Parameters"), _table(("Name", "In", "Type", ""), rows))
    if (body := operation.get("requestBody")) is not None:
        optional = "" if body["required"] else ", may be left out"
        parts += (
            element("h3", f"Body{optional}"),
            element("p", _type(body["content"][_JSON]["schema"]), " as JSON"),
        )
    parts += (element("h3", "Responses"), _responses(operation["responses"]))
    return element("details", summary, *parts, id=operation["operationId"])


def _curl(method: str, path: str, operation: dict[str, Any]) -> str:
    verb = "" if method == "get" else f" -X {method.upper()}"
    key = ' -H "x-api-key: $KEY"' if operation["security"] else ""
    body = " -H 'content-type: application/json' -d '{…}'" if "requestBody" in operation else ""
    return f"curl{verb}{key}{body} $URL{path}"


def _responses(responses: dict[str, Any]) -> Html:
    def carried(response: dict[str, Any]) -> Html:
        content = response.get("content", {})
        return joined(
            piece
            for media, body in content.items()
            for piece in (_type(body["schema"]) if media == _JSON else element("code", media), " ")
        )

    rows = (
        (status, carried(response), response["description"].replace("`", ""))
        for status, response in sorted(responses.items())
    )
    return _table(("Status", "Body", ""), rows)


def _schema(name: str, schema: dict[str, Any]) -> Html:
    parts: list[Html] = []
    if description := schema.get("description"):
        parts.append(element("p", description.replace("`", "")))
    properties = schema.get("properties")
    if properties:
        required = schema.get("required", ())
        rows = (
            (element("code", field), _type(one), "required" if field in required else "", _notes(one, one))
            for field, one in properties.items()
        )
        parts.append(_table(("Field", "Type", "", ""), rows))
    else:
        parts.append(element("p", _type(schema)))
    return element("details", element("summary", element("code", name)), *parts, id=f"schema-{name}")


def _type(schema: Any, depth: int = 0) -> Html:
    """A schema in a few words, with links to those that have a name."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return Html("any")
    if (ref := schema.get("$ref")) is not None:
        name = ref.rpartition("/")[2]
        return element("a", name, href=f"#schema-{name}")
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return _between([_type(choice, depth + 1) for choice in choices], " or ")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return _between([element("code", json.dumps(value)) for value in values], " or ")
    return _plain_type(schema, depth)


def _plain_type(schema: dict[str, Any], depth: int) -> Html:
    kind = schema.get("type", "any")
    if kind == "array":
        return joined(("list of ", _type(schema.get("items"), depth + 1)))
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return joined(("object with values of ", _type(schema["additionalProperties"], depth + 1)))
    return joined((kind if isinstance(kind, str) else " or ".join(kind),))


def _between(pieces: list[Html], word: str) -> Html:
    return joined(part for at, piece in enumerate(pieces) for part in ((word, piece) if at else (piece,)))


def _notes(schema: dict[str, Any], described: dict[str, Any]) -> str:
    """Limits, default and description."""
    limits = [words.format(schema[key]) for key, words in _CONSTRAINTS.items() if key in schema]
    if schema.get("minLength") == 1:
        limits[limits.index("at least 1 characters")] = "not empty"
    if schema.get("default") is not None:
        limits.append(f"default {json.dumps(schema['default'])}")
    said = str(described.get("description", "")).replace("`", "")
    return "; ".join(part for part in (said.rstrip("."), ", ".join(limits)) if part)


def _table(heads: tuple[str, ...], rows: Iterator[tuple[Html | str, ...]]) -> Html:
    top = element("tr", *(element("th", head, scope="col") for head in heads))
    lines = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    return element("table", element("thead", top), element("tbody", *lines))


def _hash_of(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_hash_of(_STYLE)}'; script-src 'sha256-{_hash_of(_SCRIPT)}'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-cache"),
    (b"vary", b"Accept-Encoding"),
)
