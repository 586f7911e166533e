"""What an operation says of its parameters and its body. Pure.

Above: `arguments.py`, which makes one schema of them. Below: `document.py`.
"""

import re
from enum import Enum
from typing import Any

from msgspec import Struct

from jackfield.sources.openapi.credentials import Credentials
from jackfield.sources.openapi.document import Document, Node, Unusable, list_in, object_in, shown, text_in

MOST_PARAMETERS = 200
NOT_SET_BY_ARGUMENTS = frozenset(
    {
        "accept",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that OpenAPI leaves to others, or that are about the connection."""
_PLACE = re.compile(r"\{([^{}/]+)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MEDIA_NAME = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")


class Where(Enum):
    """Where an argument goes, in the order in which names are given."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"
    FIELD = "field"
    """A field of the body."""
    BODY = "body"
    """The body itself."""


class Media(Enum):
    """How a body is written."""

    JSON = "application/json"
    FORM = "application/x-www-form-urlencoded"


STYLES = {
    Where.PATH: ("simple", "label", "matrix"),
    Where.QUERY: ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    Where.HEADER: ("simple",),
    Where.COOKIE: ("form",),
}
"""The styles that a parameter may have; the first is the default."""


class Place(Struct, frozen=True, kw_only=True):
    """One argument and what becomes of it."""

    argument: str
    where: Where
    name: str
    """As the service spells it."""
    style: str = ""
    explode: bool = False
    as_json: bool = False


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter as the document has it."""

    place: Place
    schema: Any
    description: str
    required: bool


class Body(Struct, frozen=True, kw_only=True):
    """The body, in the one of its media types that we send."""

    media: Media
    deep: frozenset[str]
    """Fields of a form whose objects are written as `name[key]=value`."""
    content_type: str
    schema: Any
    required: bool
    description: str


def parameters_of(path: str, nodes: tuple[Node, Node], document: Document, credentials: Credentials) -> list[Parameter]:
    """The parameters that callers give: the operation's, over those of its path."""
    found: dict[tuple[str, str], Parameter] = {}
    in_path = list(dict.fromkeys(_PLACE.findall(path)))
    for node in (nodes[1], nodes[0]):
        for raw in list_in(node, "parameters"):
            read = _parameter(document.resolved(raw, what="parameter"), document)
            found[read.place.where.value, read.place.name] = read
    for name in in_path:
        found.setdefault((Where.PATH.value, name), _undeclared(name))
    kept = [one for one in found.values() if _is_for_callers(one.place, in_path, credentials)]
    if len(kept) > MOST_PARAMETERS:
        raise Unusable(f"it has more than {MOST_PARAMETERS} parameters")
    order = list(Where)
    return sorted(kept, key=lambda one: order.index(one.place.where))


def _parameter(node: Node, document: Document) -> Parameter:
    name, place = text_in(node, "name"), node.get("in")
    if not name or place not in [where.value for where in STYLES]:
        raise Unusable(f"it has a parameter {shown(name)} in {shown(place)}, which OpenAPI 3 does not know")
    where = Where(place)
    content = object_in(node, "content")
    style = node.get("style", STYLES[where][0])
    if style not in STYLES[where]:
        raise Unusable(f"its parameter {shown(name)} has the style {shown(style)}, which is not for a {where.value}")
    explode = node.get("explode")
    first = document.resolved(next(iter(content.values())), what="parameter's content") if content else {}
    return Parameter(
        place=Place(
            argument=name,
            where=where,
            name=name,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            as_json=bool(content),
        ),
        schema=first.get("schema", {}) if content else node.get("schema", {}),
        description=text_in(node, "description"),
        required=node.get("required") is True or where is Where.PATH,
    )


def _undeclared(name: str) -> Parameter:
    place = Place(argument=name, where=Where.PATH, name=name, style="simple")
    return Parameter(place=place, schema={"type": "string"}, description="", required=True)


def _is_for_callers(place: Place, in_path: list[str], credentials: Credentials) -> bool:
    if place.where is Where.PATH:
        return place.name in in_path
    if place.where is Where.HEADER:
        lower = place.name.lower()
        is_free = lower not in NOT_SET_BY_ARGUMENTS and lower not in credentials.header_names
        return is_free and _HEADER.fullmatch(place.name) is not None
    if place.where is Where.COOKIE:
        return "cookie" not in credentials.header_names
    return place.name not in credentials.param_names


def body_of(operation: Node, document: Document) -> Body | None:
    if "requestBody" not in operation:
        return None
    node = document.resolved(operation["requestBody"], what="body")
    required = node.get("required") is True
    content = object_in(node, "content")
    for name, raw in sorted(content.items(), key=lambda item: _media(item[0]) is not Media.JSON):
        media = _media(name)
        if media is not None:
            described = document.resolved(raw, what="body")
            return Body(
                media=media,
                deep=frozenset(
                    field
                    for field, how in object_in(described, "encoding").items()
                    if media is Media.FORM and isinstance(how, dict) and how.get("style") == "deepObject"
                ),
                content_type=name if media is Media.JSON and _MEDIA_NAME.fullmatch(name) else media.value,
                schema=described.get("schema", {}),
                required=required,
                description=text_in(node, "description"),
            )
    if required:
        raise Unusable(f"its body is {shown(', '.join(content) or 'nothing')}; bodies are sent as JSON or as a form")
    return None


def _media(name: str) -> Media | None:
    bare = name.partition(";")[0].strip().lower()
    if bare in ("application/json", "*/*", "application/*") or (bare.startswith("application/") and "+json" in bare):
        return Media.JSON
    return Media.FORM if bare == Media.FORM.value else None
