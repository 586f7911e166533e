"""The parameters and the body of an operation. Pure."""

import re
from enum import Enum
from typing import Any

from msgspec import Struct

from jackfield.sources.openapi.document import Document, Node, Unusable, list_in, object_in, shown, text_in
from jackfield.sources.openapi.options import Credentials

MAX_PARAMETERS = 200
NOT_SET_BY_ARGUMENTS = frozenset(
    {
        "accept", "authorization", "connection", "content-length", "content-type", "cookie", "host",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that OpenAPI leaves to others, or that are about the connection."""
FILE: Node = {
    "type": "object",
    "description": "A file: its bytes in base64, or its text.",
    "properties": {
        "base64": {"type": "string", "contentEncoding": "base64"},
        "text": {"type": "string"},
        "filename": {"type": "string"},
        "media_type": {"type": "string", "description": "For example image/png."},
    },
    "oneOf": [{"required": ["base64"]}, {"required": ["text"]}],
    "additionalProperties": False,
}
"""What callers give for bytes."""
_PLACE = re.compile(r"\{([^{}/]+)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TEXTUAL = frozenset(
    {"application/xml", "application/yaml", "application/x-yaml", "application/graphql", "application/x-ndjson"}
)
_MEDIA_NAME = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")


class Location(Enum):
    """Where an argument goes; names are given in this order."""

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
    MULTIPART = "multipart/form-data"
    TEXT = "text/plain"
    """As the caller writes it: plain text, XML and the like."""
    OCTETS = "application/octet-stream"
    """Bytes of any other kind."""


STYLES = {
    Location.PATH: ("simple", "label", "matrix"),
    Location.QUERY: ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    Location.HEADER: ("simple",),
    Location.COOKIE: ("form",),
}
"""The styles that a parameter may have; the first is the default."""


class ArgumentPlace(Struct, frozen=True, kw_only=True):
    """Where one argument goes in the request, and how it is written."""

    argument: str
    where: Location
    name: str
    """As the service spells it."""
    style: str = ""
    explode: bool = False
    as_json: bool = False
    as_file: bool = False
    media_type: str | None = None
    """That of a part of its own, where the document says so."""

    def pinned(self) -> Node:
        """Its part of the tool's definition. Newer fields are there only where they are set, so that old pins hold."""
        made = {
            "argument": self.argument,
            "where": self.where.value,
            "name": self.name,
            "style": self.style,
            "explode": self.explode,
            "as_json": self.as_json,
        }
        if self.as_file:
            made["as_file"] = True
        if self.media_type is not None:
            made["media_type"] = self.media_type
        return made


class Encoding(Struct, frozen=True, kw_only=True):
    """How one field of a form is written."""

    style: str = ""
    explode: bool = True
    media_type: str | None = None


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter as the document has it."""

    place: ArgumentPlace
    schema: Any
    description: str
    required: bool


class Body(Struct, frozen=True, kw_only=True):
    """The body, in the one of its media types that we send."""

    media: Media
    encodings: dict[str, Encoding]
    """By field of a form, where the document says how it is written."""
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
        found.setdefault((Location.PATH.value, name), _undeclared(name))
    kept = [one for one in found.values() if _is_for_callers(one.place, in_path, credentials)]
    if len(kept) > MAX_PARAMETERS:
        raise Unusable(f"it has more than {MAX_PARAMETERS} parameters")
    order = list(Location)
    return sorted(kept, key=lambda one: order.index(one.place.where))


def _parameter(node: Node, document: Document) -> Parameter:
    name, place = text_in(node, "name"), node.get("in")
    if not name or place not in [where.value for where in STYLES]:
        raise Unusable(f"it has a parameter {shown(name)} in {shown(place)}, which OpenAPI 3 does not know")
    where = Location(place)
    content = object_in(node, "content")
    style = node.get("style", STYLES[where][0])
    if style not in STYLES[where]:
        raise Unusable(f"its parameter {shown(name)} has the style {shown(style)}, which is not for a {where.value}")
    explode = node.get("explode")
    first = document.resolved(next(iter(content.values())), what="parameter's content") if content else {}
    return Parameter(
        place=ArgumentPlace(
            argument=name,
            where=where,
            name=name,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            as_json=bool(content),
        ),
        schema=first.get("schema", {}) if content else node.get("schema", {}),
        description=text_in(node, "description"),
        required=node.get("required") is True or where is Location.PATH,
    )


def _undeclared(name: str) -> Parameter:
    place = ArgumentPlace(argument=name, where=Location.PATH, name=name, style="simple")
    return Parameter(place=place, schema={"type": "string"}, description="", required=True)


def _is_for_callers(place: ArgumentPlace, in_path: list[str], credentials: Credentials) -> bool:
    if place.where is Location.PATH:
        return place.name in in_path
    if place.where is Location.HEADER:
        lower = place.name.lower()
        is_free = lower not in NOT_SET_BY_ARGUMENTS and lower not in credentials.header_names
        return is_free and _HEADER.fullmatch(place.name) is not None
    if place.where is Location.COOKIE:
        return "cookie" not in credentials.header_names
    return place.name not in credentials.param_names


def body_of(operation: Node, document: Document) -> Body | None:
    if "requestBody" not in operation:
        return None
    node = document.resolved(operation["requestBody"], what="body")
    required = node.get("required") is True
    content = object_in(node, "content")
    if not content:
        if required:
            raise Unusable("it has to have a body, and the document does not say of which kind")
        return None
    order = list(Media)
    name = min(content, key=lambda one: order.index(_media(one)))
    media = _media(name)
    described = document.resolved(content[name], what="body")
    return Body(
        media=media,
        encodings={field: _encoding(how) for field, how in object_in(described, "encoding").items()},
        content_type=_content_type(name, media),
        schema=described.get("schema", {}),
        required=required,
        description=text_in(node, "description"),
    )


def _encoding(how: Any) -> Encoding:
    if not isinstance(how, dict):
        return Encoding()
    media_type, style = text_in(how, "contentType").partition(",")[0].strip(), text_in(how, "style")
    return Encoding(
        style=style if style in STYLES[Location.QUERY] else "",
        explode=how.get("explode") is not False,
        media_type=media_type.lower() if _MEDIA_NAME.fullmatch(media_type) else None,
    )


def _media(name: str) -> Media:
    bare = name.partition(";")[0].strip().lower()
    if bare in ("application/json", "*/*", "application/*") or (bare.startswith("application/") and "+json" in bare):
        return Media.JSON
    for media in (Media.FORM, Media.MULTIPART):
        if bare == media.value:
            return media
    is_text = bare.startswith("text/") or bare in _TEXTUAL or bare.endswith("+xml")
    return Media.TEXT if is_text else Media.OCTETS


def _content_type(name: str, media: Media) -> str:
    """As the document spells it, where one kind is meant."""
    bare = name.partition(";")[0].strip()
    if media is Media.JSON:
        return name if _MEDIA_NAME.fullmatch(name) else media.value
    if media is Media.TEXT:
        return f"{bare if _MEDIA_NAME.fullmatch(bare) else media.value}; charset=utf-8"
    if media is Media.OCTETS:
        return bare if _MEDIA_NAME.fullmatch(bare) else media.value
    return str(media.value)


def is_file(schema: Node) -> bool:
    """Whether a field with this schema is bytes: as OpenAPI 3.0 says it, or as 3.1 does."""
    if schema.get("format") in ("binary", "base64"):
        return True
    return "contentMediaType" in schema and "contentEncoding" not in schema and schema.get("type") in (None, "string")
