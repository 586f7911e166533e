"""The config of an OpenAPI source (`[sources.NAME]` with `kind = "openapi"`), and its credentials. Pure."""

import re
from base64 import b64encode
from collections.abc import Callable
from fnmatch import translate
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.model.call import Done, Failed
from jackfield.model.redaction import SecretForms
from jackfield.outgoing import MAX_BYTES, OutgoingBadUrl
from jackfield.outgoing.urls import parse_url
from jackfield.settings.parsing import parse_config
from jackfield.sources.http import check_headers
from jackfield.sources.openapi.document import MAX_DOCUMENT

Seconds = Annotated[float, Meta(gt=0, le=366 * 24 * 3600)]
Name = Annotated[str, Meta(min_length=1)]
SHORTEST_HEADER = 8
"""Most headers of the config are no secrets; shorter values would be found by chance."""


class Bearer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="bearer"):
    """`Authorization: Bearer …`"""

    token: Name
    """The token."""


class Basic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="basic"):
    """`Authorization: Basic …`"""

    user: str
    """The user."""
    password: str
    """The password."""


class ApiKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="api_key"):
    """A key in a header or a query parameter of its own."""

    name: Name
    """Of the header or parameter."""
    value: Name
    """The key."""
    place: Literal["header", "query"] = "header"
    """Where it is sent."""


Auth = Bearer | Basic | ApiKey


class OperationGlobs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some of a document's operations. Names and globs; in a path `*` also stands for several parts."""

    operations: tuple[Name, ...] = ()
    """By operationId, or the name that a tool has without one."""
    tags: tuple[Name, ...] = ()
    """By tag."""
    paths: tuple[Name, ...] = ()
    """By path."""
    methods: tuple[Name, ...] = ()
    """By HTTP method."""


class OpenApiOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of one service; times are in seconds."""

    url: str | None = None
    """The document at a url."""
    file: str | None = None
    """The document in a file, relative to the config."""
    base_url: str | None = None
    """Where the service is, if not where the document says."""
    auth: Auth | None = None
    """What requests authenticate with."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    include: OperationGlobs = OperationGlobs()
    """Operations that match every key given here; all if none is."""
    exclude: OperationGlobs = OperationGlobs()
    """Operations that match any key given here are left out."""
    fields: bool = True
    """Whether tools take an argument that says which fields of the answer are wanted."""
    select: dict[str, tuple[Name, ...]] = {}
    """By tool: the fields that its answers are trimmed to, whoever asks."""
    max_bytes: Annotated[int, Meta(ge=1, le=1024 * MAX_BYTES)] = MAX_BYTES
    """The most that one answer may have."""
    max_document: Annotated[int, Meta(ge=1, le=32 * MAX_DOCUMENT)] = MAX_DOCUMENT
    """The most that the document may have."""
    cache_ttl: Seconds = 300
    """Seconds until the document is read again."""
    call_timeout: Seconds | None = None
    """For every call."""
    max_concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Calls at once; without limit if left out."""

    @property
    def timeout_ms(self) -> int | None:
        return None if self.call_timeout is None else max(1, round(self.call_timeout * 1000))

    @property
    def document(self) -> str:
        """Where the document is, as far as everybody may know: no user, no query, no folder."""
        if self.url is not None:
            return self.url.partition("?")[0].partition("#")[0]
        return (self.file or "").rpartition("/")[2]


def parse_options(options: dict[str, Any], *, where: str) -> OpenApiOptions:
    """The options, checked without any request. Raises `ConfigError`."""
    parsed = parse_config(options, OpenApiOptions, where=where)
    if (parsed.url is None) == (parsed.file is None):
        raise ConfigError(f"{where} needs either the url of its document or a file. Give exactly one of the two.")
    if parsed.file is not None and parsed.base_url is None:
        raise ConfigError(f"{where}: a document in a file does not say where the service is. Add base_url.")
    for key, url in (("url", parsed.url), ("base_url", parsed.base_url)):
        if url is not None:
            _check_url(url, where=f"{where}.{key}")
    if parsed.base_url is not None and ("?" in parsed.base_url or "#" in parsed.base_url):
        raise ConfigError(f"{where}.base_url has a query or a fragment. Put keys into auth, and remove it.")
    check_headers(parsed.headers, where=f"{where}:", key="headers")
    _check_auth(parsed, where=where)
    return parsed


def matcher(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether one of the globs matches a text."""
    compiled = re.compile("|".join(translate(glob) for glob in globs)) if globs else None
    return lambda text: compiled is not None and compiled.match(text) is not None


def _check_url(url: str, *, where: str) -> None:
    try:
        parsed = parse_url(url)
    except OutgoingBadUrl as fault:
        raise ConfigError(f"{where} is invalid. {fault} Correct it.") from None
    if parsed.userinfo:
        raise ConfigError(f"{where} has a user or password in it. Put them into auth.")


def _check_auth(options: OpenApiOptions, *, where: str) -> None:
    """Values are not shown: they are secrets."""
    match options.auth:
        case Bearer(token=token):
            check_headers({"Authorization": token}, where=f"{where}:", key="auth")
        case ApiKey(place="header", name=name, value=value):
            check_headers({name: value}, where=f"{where}:", key="auth.name")
        case Basic(user=user) if ":" in user:
            raise ConfigError(f"{where}.auth.user has a ':' in it, which basic auth cannot carry. Correct it.")
        case _:
            pass
    twice = {name.lower() for name in options.headers} & {name.lower() for name in _auth_headers(options.auth)}
    if twice:
        raise ConfigError(f"{where}: both auth and headers set '{twice.pop()}'. Remove one of the two.")


def _auth_headers(auth: Auth | None) -> tuple[str, ...]:
    if isinstance(auth, ApiKey):
        return (auth.name,) if auth.place == "header" else ()
    return () if auth is None else ("Authorization",)


class Credentials(Struct, frozen=True, kw_only=True):
    """Headers and query parameters that the config sets, whatever a call's arguments say."""

    headers: dict[str, str] = {}
    params: tuple[tuple[str, str], ...] = ()
    secrets: SecretForms = SecretForms(())

    @property
    def header_names(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.headers)

    @property
    def param_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.params)

    def cleaned(self, outcome: Done | Failed) -> Done | Failed:
        """The outcome without them. A service may show a request as it got it."""
        if isinstance(outcome, Done):
            return Done(self.secrets.json(outcome.result))
        result = None if outcome.result is None else self.secrets.json(outcome.result, was_cut=True)
        return Failed(outcome.code, self.text(outcome.message), result)

    def text(self, text: str) -> str:
        return self.secrets.text(text)


def credentials_of(auth: Auth | None, headers: dict[str, str]) -> Credentials:
    """The credentials in `auth` and `headers` of the config."""
    match auth:
        case Bearer(token=token):
            return _made({**headers, "Authorization": f"Bearer {token}"}, secrets=[token])
        case Basic(user=user, password=password):
            pair = b64encode(f"{user}:{password}".encode()).decode()
            return _made({**headers, "Authorization": f"Basic {pair}"}, secrets=[pair, password])
        case ApiKey(name=name, value=value, place="header"):
            return _made({**headers, name: value}, secrets=[value])
        case ApiKey(name=name, value=value):
            return _made(headers, params=((name, value),), secrets=[value])
        case _:
            return _made(headers, secrets=[])


def _made(headers: dict[str, str], *, params: tuple[tuple[str, str], ...] = (), secrets: list[str]) -> Credentials:
    others = (word for value in headers.values() for word in (value, *value.split()) if len(word) >= SHORTEST_HEADER)
    return Credentials(headers=headers, params=params, secrets=SecretForms((*secrets, *others)))
