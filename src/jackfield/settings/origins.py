"""Every value of the settings with where it comes from, as it may be shown: without secrets. Pure.

A variable is shown by its name. What is written out where secrets are written is hidden, and so are the user in an
address and the value after an option such as `--token`. Under every other key, what looks like a credential is hidden:
by a known prefix, after `Bearer` or `TOKEN=`, or as random letters and digits.
Above: `loading.py`, and `GET /api/v1/config`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import NODEFAULT, Struct, inspect

from jackfield.settings.variables import MASKED, variables_in

Origin = Literal["file", "default", "environment", "command_line", "api"]

_SECRET = re.compile(
    r"key|secret|token|passw|auth|credential|cookie|private|bearer|signature|licen[cs]e"
    r"|(?:^|[_-])(?:pwd|pass|pin|sig|dsn|jwt|pat)$",
    re.IGNORECASE,
)
_NOT_SECRET = frozenset(
    {
        "admin_key",
        "auth",
        "authorization_url",
        "context_tokens",
        "max_output_tokens",
        "max_tokens",
        "secrets",
        "token_endpoint_auth_method",
        "token_file",
        "token_url",
    }
)
"""Keys that are named like those of secrets and hold none; `secrets` is a list of names."""
_RANDOM_NAMES = frozenset({"client_id"})
_NAMED_BY_KIND = frozenset({"sources", "models", "tools"})
"""Tables whose parts have the keys of their kinds."""
_SECRET_TABLES = frozenset({"headers", "env", "body", "options", "config", "query"})
"""What is handed to somebody else's server or code, under keys that nobody here knows."""
_OF_AUTH = frozenset({"type", "name", "place"})
"""What a source's `auth` says of how a secret is sent; the rest of the table is one."""
_USER = re.compile(r"(?<=://)[^/@\s]*(?=@)")
_QUERY = re.compile(r"(?<=[?&])([^=&#\s]+)=([^&#\s]*)")
_KEYS_OF_QUERIES = frozenset({"code"})
"""What services besides call a key in an address."""
_OPTION = re.compile(
    r"-{1,2}(?:[\w-]*(?:key|secret|token|passw|auth|credential|licen[cs]e)[\w-]*|(?:[\w-]+-)?(?:pwd|pass|pin|pat|dsn))(=|(?![\w-]))",
    re.IGNORECASE,
)
_HOOK_PATH = re.compile(
    r"(?<=://)(hooks\.slack\.com|(?:[\w-]+\.)?discord(?:app)?\.com|[\w.-]*webhook\.office\.com)/\S+"
)
"""Addresses of chat services that are a secret as a whole: whoever has one may post."""
_SCHEME = re.compile(r"\b(Bearer|Basic)(\s+)(?!\$\{)[\w.~+/=-]{8,}", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"\b([A-Z][A-Z0-9_]*=|(?:Authorization|Cookie|[\w]+-[\w-]+):[ \t]*)(?!Bearer|Basic|\[redacted)([^\s\"',;$/]+)"
)
"""`TOKEN=…` and `X-Api-Key: …`, in a command or a text."""
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_PREFIXED = re.compile(
    r"(?<![\w-])(?:sk-|[rsp]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|hf_|npm_|pypi-|whsec_|AKIA|AIza|eyJ)"
    r"[\w.+/=-]{12,}"
)
"""How well-known services begin what they hand out."""
_LONG_WORD = re.compile(r"(?<![\w.~/-])[A-Za-z0-9_-]{20,}=*(?![\w.~-])")
_LONG_WORD_OR_PART = re.compile(r"(?<![\w.~-])[A-Za-z0-9_-]{20,}=*(?![\w.~-])")
"""In an address also a part of its path; a file may be called anything."""
_RANDOM = re.compile(r"(?=[A-Za-z0-9]*?[a-z])(?=[A-Za-z0-9]*?[A-Z])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{16,}")
_HEX = re.compile(r"(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{32,}")


class ConfigValue(Struct, frozen=True, kw_only=True):
    """One value in force."""

    key: str
    """As in the config, such as `server.port` and `hooks[0].url`; or the variable that alone sets it."""
    value: Any
    origin: Origin
    given_by: str | None = None
    """The variable or option that set it."""


def described(
    written: Mapping[str, Any], document: type[Struct], set_elsewhere: Iterable[ConfigValue]
) -> tuple[ConfigValue, ...]:
    """Every value of a config file, and the defaults of what it leaves out. `set_elsewhere` goes before both."""
    info = inspect.type_info(document)
    found = {one.key: one for one in _of_table("", written, info)}
    for one in set_elsewhere:
        found[one.key] = msgspec.structs.replace(one, value=for_show(one.value, one.key))
    return tuple(sorted(found.values(), key=lambda one: one.key))


def of_table(prefix: str, table: Mapping[str, Any], *, origin: Origin) -> tuple[ConfigValue, ...]:
    """The values of one table that was given otherwise than in the file."""
    return tuple(
        ConfigValue(key=f"{prefix}.{key}", value=for_show(value, key), origin=origin) for key, value in table.items()
    )


def kept(
    old: Iterable[ConfigValue], new: Iterable[ConfigValue], *, until_restart: Iterable[str]
) -> tuple[ConfigValue, ...]:
    """After a reload: the new values, but the old ones of what is in force until a restart."""
    names = tuple(until_restart)

    def stays(one: ConfigValue) -> bool:
        return any(one.key == name or one.key.startswith((f"{name}.", f"{name}[")) for name in names)

    values = [*(one for one in old if stays(one)), *(one for one in new if not stays(one))]
    return tuple(sorted(values, key=lambda one: one.key))


def for_show(value: Any, key: str = "") -> Any:
    """A value without secrets. `key`: what it is written under."""
    return _shown(value, key, is_secret=False)


def table_for_show(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table of a source or a model without secrets."""
    return {key: for_show(value, key) for key, value in table.items()}


def _of_table(prefix: str, table: Any, info: inspect.Type) -> Iterable[ConfigValue]:
    """The values of a table with known keys, with the defaults of those that are left out."""
    given = table if isinstance(table, Mapping) else {}
    for field in getattr(info, "fields", ()):
        key = f"{prefix}{field.encode_name}"
        if field.encode_name in given:
            yield from _written(key, given[field.encode_name], field.type)
        else:
            yield from _defaults(key, field)


def _written(key: str, value: Any, info: inspect.Type) -> Iterable[ConfigValue]:
    """A value of the file, by its parts where they have names of their own."""
    kind = _struct_in(info)
    if kind is not None and isinstance(value, Mapping):
        if isinstance(_plain(info), inspect.DictType):
            for name, table in value.items():
                yield from _of_table(f"{key}.{name}.", table, kind)
        else:
            yield from _of_table(f"{key}.", value, kind)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        for number, table in enumerate(value):
            if kind is not None:
                yield from _of_table(f"{key}[{number}].", table, kind)
            else:
                yield from _free(f"{key}[{number}]", table)
    elif key in _NAMED_BY_KIND and isinstance(value, Mapping):
        for name, table in value.items():
            yield from _free(f"{key}.{name}", table)
    else:
        yield ConfigValue(key=key, value=for_show(value, key.rpartition(".")[2]), origin="file")


def _free(prefix: str, table: Any) -> Iterable[ConfigValue]:
    """A table whose keys are its kind's own, so that nobody knows what it leaves out."""
    if isinstance(table, Mapping):
        yield from of_table(prefix, table, origin="file")


def _defaults(key: str, field: inspect.Field) -> Iterable[ConfigValue]:
    kind = _plain(field.type)
    if isinstance(kind, inspect.StructType) and not isinstance(field.type, inspect.UnionType):
        yield from _of_table(f"{key}.", {}, kind)
        return
    value = field.default if field.default is not NODEFAULT else None
    if field.default_factory is not NODEFAULT:
        value = field.default_factory()
    has_named_parts = _struct_in(field.type) is not None or key in _NAMED_BY_KIND
    if value not in ({}, ()) or not has_named_parts:
        yield ConfigValue(key=key, value=msgspec.to_builtins(value), origin="default")


def _plain(info: inspect.Type) -> inspect.Type:
    """The type beside `None`."""
    if isinstance(info, inspect.UnionType):
        return next((kind for kind in info.types if not isinstance(kind, inspect.NoneType)), info)
    return info


def _struct_in(info: inspect.Type) -> inspect.StructType | None:
    """The table that a value is, or has many of."""
    kind = _plain(info)
    if isinstance(kind, inspect.DictType):
        kind = _plain(kind.value_type)
    elif isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        kind = _plain(kind.item_type)
    return kind if isinstance(kind, inspect.StructType) else None


def _shown(value: Any, key: str, *, is_secret: bool) -> Any:
    is_secret = is_secret or key in _SECRET_TABLES
    if isinstance(value, Mapping):  # one of such a name (`keys`, `oauth`) is looked into
        if key == "auth" and "type" in value:
            return {name: _shown(inner, "", is_secret=name not in _OF_AUTH) for name, inner in value.items()}
        return {str(name): _shown(inner, str(name), is_secret=is_secret) for name, inner in value.items()}
    is_named_so = _is_secret(key)
    if isinstance(value, (list, tuple)):
        return [_shown(one, "", is_secret=is_secret or is_named_so or hidden) for one, hidden in _after_options(value)]
    if not isinstance(value, str):
        return MASKED if is_named_so and isinstance(value, (int, float)) and not isinstance(value, bool) else value
    if is_secret or is_named_so:
        return value if not value or variables_in(value) else MASKED
    cleaned = _without_credentials(value)
    return cleaned if key in _RANDOM_NAMES else _without_likely_secrets(cleaned)


def _after_options(words: Iterable[Any]) -> Iterable[tuple[Any, bool]]:
    """The words of a command, and whether each is the value of an option that takes a secret."""
    hidden = False
    for word in words:
        option = _OPTION.match(word) if isinstance(word, str) else None
        if option is not None and option[1] and not hidden and not variables_in(word):
            yield f"{word[: option.end()]}{MASKED}", False
        else:
            yield word, hidden
        hidden = option is not None and not option[1]


def _without_credentials(text: str) -> str:
    """A text without the user of an address, and without what its query says where secrets are."""

    def query(found: re.Match[str]) -> str:
        is_secret = _is_secret(found[1]) or found[1] in _KEYS_OF_QUERIES
        return found[0] if not is_secret or variables_in(found[2]) else f"{found[1]}={MASKED}"

    def user(found: re.Match[str]) -> str:
        return found[0] if variables_in(found[0]) else MASKED

    cleaned = _QUERY.sub(query, _USER.sub(user, text))
    return cleaned if variables_in(cleaned) else _HOOK_PATH.sub(rf"\1/{MASKED}", cleaned)


def _without_likely_secrets(text: str) -> str:
    """A text without what looks like a credential, wherever it is written."""

    def assigned(found: re.Match[str]) -> str:
        return f"{found[1]}{MASKED}" if _is_secret(found[1].rstrip("=: \t")) else found[0]

    text = _SCHEME.sub(rf"\1\2{MASKED}", _PEM.sub(MASKED, text))
    text = _PREFIXED.sub(MASKED, _ASSIGNED.sub(assigned, text))
    words = _LONG_WORD_OR_PART if "://" in text else _LONG_WORD
    return words.sub(lambda found: MASKED if _looks_random(found[0]) else found[0], text)


def _looks_random(word: str) -> bool:
    """Letters of both cases among digits, or a long number in base 16. Names of things have short parts."""
    return any(_RANDOM.fullmatch(part) or _HEX.fullmatch(part) for part in re.split(r"[-_]", word.rstrip("=")))


def _is_secret(key: str) -> bool:
    return key.lower() not in _NOT_SECRET and _SECRET.search(key) is not None
