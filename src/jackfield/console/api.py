"""The console as it was built: one page and its assets. Where it was not built, the plain page says how to get it.

Above: the URL map. Below: `dist/`, which Vite fills (`make console`), `static/`, and the operator's own folder of
components (`[console] tools`). An asset's name changes with what is in it, so browsers may keep it for ever; the page
itself is asked for each time.
"""

import asyncio
import gzip
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from jackfield.errors import NotFound
from jackfield.http.request import Request
from jackfield.http.response import NO_STORE, BytesResponse, Header, Response, json_response
from jackfield.http.routing import ANYBODY_KNOWN, ResponseSpec, Route

_MEDIA = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
    "png": "image/png",
}
_ASSET = re.compile(r"[A-Za-z0-9_.-]{1,120}\.([a-z0-9]{1,5})")
_WORTH_ZIPPING = 1_000
_ASSET_HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"vary", b"Accept-Encoding"),
    (b"x-content-type-options", b"nosniff"),
)


class OwnModules(Struct, frozen=True, kw_only=True):
    """Modules that the page loads: each registers components by the names of their tools."""

    modules: list[str]


class ConsoleApi:
    """Handlers of the page, its assets and the operator's own components."""

    def __init__(self, own_components: Path | None) -> None:
        self._own_components = own_components
        """The folder that `[console] tools` names."""

    async def show_page(self, _request: Request) -> Response:
        """The console, or the plain page."""
        page = _read("index.html")
        if page is None:
            return static_response("index.html", "text/html; charset=utf-8")
        return BytesResponse(200, ((b"content-type", b"text/html; charset=utf-8"), *PAGE_HEADERS), page)

    async def show_asset(self, request: Request) -> Response:
        """One file that the page asks for."""
        name = request.part("file")
        found = _ASSET.fullmatch(name)
        media = None if found is None else _MEDIA.get(found[1])
        body = None if media is None else _read(f"assets/{name}")
        if media is None or body is None:
            raise NotFound(f"The console has no file '{name[:120]}'. Reload the page; after an update, build it anew.")
        headers = ((b"content-type", media.encode()), *_ASSET_HEADERS)
        if len(body) > _WORTH_ZIPPING and "gzip" in (request.header(b"accept-encoding") or ""):
            return BytesResponse(200, (*headers, (b"content-encoding", b"gzip")), _zipped(f"assets/{name}"))
        return BytesResponse(200, headers, body)

    async def list_own_modules(self, _request: Request) -> Response:
        """Where the operator's own components are."""
        folder = self._own_components
        names = [] if folder is None else sorted(path.name for path in folder.glob("*.js"))
        urls = [f"/api/console/tools/{name}" for name in names if _ASSET.fullmatch(name)]
        return json_response(OwnModules(modules=urls))

    async def show_own_module(self, request: Request) -> Response:
        """One of the operator's own modules, as it is now."""
        name, folder = request.part("file"), self._own_components
        file = None if folder is None or not _ASSET.fullmatch(name) else folder / name
        if file is None or file.suffix != ".js" or not file.is_file():
            raise NotFound(f"There is no module '{name[:120]}' in the folder of [console] tools.")
        headers = ((b"content-type", _MEDIA["js"].encode()), NO_STORE, (b"x-content-type-options", b"nosniff"))
        return BytesResponse(200, headers, await asyncio.to_thread(file.read_bytes))


def routes(own_components: Path | None) -> list[Route]:
    """Every route of the console."""
    api = ConsoleApi(own_components)
    return [
        Route(
            method="GET",
            path="/",
            handler=api.show_page,
            scope=None,
            always_open=True,
            tag="Reference",
            summary="The console",
            responses={200: ResponseSpec(description="The page", media="text/html")},
        ),
        Route(
            method="GET",
            path="/api/console/tools",
            handler=api.list_own_modules,
            scope=ANYBODY_KNOWN,
            tag="Console",
            summary="The operator's own components for tools",
            responses={200: ResponseSpec(description="Their addresses", type=OwnModules)},
        ),
        Route(
            method="GET",
            path="/api/console/tools/{file}",
            handler=api.show_own_module,
            scope=ANYBODY_KNOWN,
            tag="Console",
            summary="One of the operator's own components",
            responses={200: ResponseSpec(description="The module", media="text/javascript")},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/assets/{file}",
            handler=api.show_asset,
            scope=None,
            always_open=True,
            tag="Reference",
            summary="A file of the console",
            responses={200: ResponseSpec(description="The file", media="text/javascript")},
            errors=(404,),
        ),
        _static_route("/icon.svg", "icon.svg", "image/svg+xml"),
        _static_route("/page.css", "page.css", "text/css"),
        _static_route("/page.js", "page.js", "text/javascript"),
    ]


def _static_route(path: str, file: str, media: str) -> Route:
    response = static_response(file, f"{media}; charset=utf-8")

    async def handler(_request: Request) -> Response:
        return response

    return Route(
        method="GET",
        path=path,
        handler=handler,
        operation=f"page_{file.replace('.', '_')}",
        scope=None,
        always_open=True,
        tag="Reference",
        summary=f"The page at / ({file})",
        responses={200: ResponseSpec(description="The file", media=media)},
    )


def is_built() -> bool:
    return _read("index.html") is not None


@cache
def _read(name: str) -> bytes | None:
    file = files("jackfield.console") / "dist" / name
    return file.read_bytes() if file.is_file() else None


@cache
def _zipped(name: str) -> bytes:
    return gzip.compress(_read(name) or b"", 9, mtime=0)


_POLICY = (
    b"default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    b"object-src 'none'; require-trusted-types-for 'script'"
)
PAGE_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)


def static_response(name: str, media: str) -> BytesResponse:
    body = (files("jackfield.console") / "static" / name).read_bytes()
    return BytesResponse(200, ((b"content-type", media.encode()), *PAGE_HEADERS), body)
