"""Pages of other origins that may use the API from a browser (`[server] cors_origins`), and what browsers are told.

Above: `app.py`. Below: the settings. Such a page brings a key or a token of its own; the login cookie of the gateway's
own pages never counts for it. Pure.
"""

from jackfield.http.response import Header

ANY = "*"
ANY_ORIGIN: Header = (b"access-control-allow-origin", b"*")
"""For documents that every page may read, such as those of OAuth."""
_PREFIXES = ("/api/", "/v1/", "/mcp/")
_SIGN_IN = ("/api/login", "/api/logout")
"""These deal in cookies, so they are for the gateway's own pages alone."""
_VARIES: Header = (b"vary", b"Origin")
_EXPOSED: Header = (b"access-control-expose-headers", b"*")
_MAX_AGE: Header = (b"access-control-max-age", b"600")
_PUBLIC_PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
    _MAX_AGE,
)


class Cors:
    """The origins that the operator lets in."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origin.lower().rstrip("/").encode("latin-1", "replace") for origin in origins)
        self._any = ANY in origins

    def is_open(self, path: str) -> bool:
        """Whether pages of these origins may use this path."""
        if not self._origins or path.startswith(_SIGN_IN):
            return False
        return path.startswith(_PREFIXES) or path == "/mcp"

    def lets_in(self, origin: bytes) -> bool:
        return self._any or origin.lower() in self._origins

    def headers(self, origin: bytes | None) -> tuple[Header, ...]:
        """What a response on an open path carries; `origin`: the page that may read it, if one asks that may."""
        if origin is None:
            return (_VARIES,)
        return (_VARIES, (b"access-control-allow-origin", origin), _EXPOSED)


def preflight_headers(allowed_methods: str, *, is_public: bool) -> tuple[Header, ...]:
    """What a browser wants to know before it sends a page's request. `*` covers every header but Authorization."""
    if is_public:
        return _PUBLIC_PREFLIGHT
    return (
        (b"access-control-allow-methods", allowed_methods.encode()),
        (b"access-control-allow-headers", b"*, Authorization"),
        _MAX_AGE,
    )
