"""The parameters and the body of an operation as one schema, and where each argument goes in the request. Pure.

Above: `operations.py`. Below: `schemas.py`. A JSON or form body that is a plain object has its fields among the
arguments; any other body is one argument, `body`. Where two would have the same name, the later one's place stands
before it (`query_id`, `body_id`).
"""

import re
from enum import Enum
from typing import Any

from msgspec import Struct

from jackfield.sources.hidden import cleaned
from jackfield.sources.openapi.credentials import Credentials
from jackfield.sources.openapi.document import Document, Node, Unusable, list_in, object_in, shown, text_in
from jackfield.sources.openapi.schemas import Converted, Schemas

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
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 64
_ABOUT_PROPERTIES = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})


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


class Inputs(Struct, frozen=True, kw_only=True):
    """What an operation takes."""

    schema: Node
    places: tuple[Place, ...] = ()
    media: Media | None = None
    """How its body is written; None: it has none."""
    content_type: str | None = None
    has_to_send_body: bool = False
    is_cut: bool = False
    """Whether the schema is left open somewhere, because it would be too large."""


def inputs_of(
    path: str, nodes: tuple[Node, Node], *, document: Document, schemas: Schemas, credentials: Credentials
) -> Inputs:
    """The inputs of the operation `nodes[0]` of the path item `nodes[1]`. Raises `Unusable`."""
    gathered = _Gathered(schemas)
    for parameter in _parameters(path, nodes, document, credentials):
        gathered.add_parameter(parameter)
    gathered.add_body(_body(nodes[0], document))
    return gathered.inputs()


class _Parameter(Struct, frozen=True, kw_only=True):
    place: Place
    schema: Any
    description: str
    required: bool


class _Body(Struct, frozen=True, kw_only=True):
    media: Media
    deep: frozenset[str]
    """Fields of a form whose objects are written as `name[key]=value`."""
    content_type: str
    schema: Any
    required: bool
    description: str


def _parameters(path: str, nodes: tuple[Node, Node], document: Document, credentials: Credentials) -> list[_Parameter]:
    """The parameters that callers give: the operation's, over those of its path."""
    found: dict[tuple[str, str], _Parameter] = {}
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


def _parameter(node: Node, document: Document) -> _Parameter:
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
    return _Parameter(
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


def _undeclared(name: str) -> _Parameter:
    place = Place(argument=name, where=Where.PATH, name=name, style="simple")
    return _Parameter(place=place, schema={"type": "string"}, description="", required=True)


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


def _body(operation: Node, document: Document) -> _Body | None:
    if "requestBody" not in operation:
        return None
    node = document.resolved(operation["requestBody"], what="body")
    required = node.get("required") is True
    content = object_in(node, "content")
    for name, raw in sorted(content.items(), key=lambda item: _media(item[0]) is not Media.JSON):
        media = _media(name)
        if media is not None:
            described = document.resolved(raw, what="body")
            return _Body(
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


class _Gathered:
    """The schema as it grows."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._properties: Node = {}
        self._required: list[str] = []
        self._places: list[Place] = []
        self._parts: dict[str, None] = {}
        self._body: _Body | None = None
        self._has_to_send = False

    def add_parameter(self, parameter: _Parameter) -> None:
        place = parameter.place
        self._add(place, self._schemas.converted(parameter.schema), parameter.description, required=parameter.required)

    def add_body(self, body: _Body | None) -> None:
        if body is None:
            return
        self._body = body
        whole = self._schemas.converted(body.schema)
        fields = self._plain_object(whole)
        names = (
            [name for name in fields.schema.get("required", ()) if name in fields.schema["properties"]]
            if fields
            else []
        )
        if fields is None or (names and not body.required):
            place = Place(argument="body", where=Where.BODY, name="body")
            self._add(place, whole, body.description, required=body.required)
            return
        self._has_to_send = body.required
        for name, schema in fields.schema["properties"].items():
            place = Place(argument=name, where=Where.FIELD, name=name, style="deepObject" if name in body.deep else "")
            self._add(place, Converted(schema), "", required=name in names)
        self._parts |= dict.fromkeys(fields.parts)

    def inputs(self) -> Inputs:
        definitions, is_cut = self._schemas.definitions(self._parts)
        schema: Node = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        schema["additionalProperties"] = False
        if definitions:
            schema["$defs"] = definitions
        return Inputs(
            schema=schema,
            places=tuple(self._places),
            media=None if self._body is None else self._body.media,
            content_type=None if self._body is None else self._body.content_type,
            has_to_send_body=self._has_to_send,
            is_cut=is_cut,
        )

    def _plain_object(self, whole: Converted) -> Converted | None:
        """The body as an object with known fields, if it is one."""
        for _ in range(4):
            if whole.schema.keys() - {"description"} != {"$ref"}:
                break
            whole = self._schemas.part(whole.parts[0])
        schema = whole.schema
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not 0 < len(properties) <= MOST_PARAMETERS:
            return None
        if schema.get("type", "object") != "object" or schema.keys() - _ABOUT_PROPERTIES:
            return None
        if schema.get("additionalProperties", False) is not False:
            return None
        required = schema.get("required", [])
        is_list = isinstance(required, list) and all(isinstance(name, str) for name in required)
        return whole if is_list else None

    def _add(self, place: Place, converted: Converted, description: str, *, required: bool) -> None:
        argument = self._free_name(place)
        schema = converted.schema
        if description and "description" not in schema:
            schema = {**schema, "description": cleaned(description)}
        self._properties[argument] = schema
        self._parts |= dict.fromkeys(converted.parts)
        if required:
            self._required.append(argument)
        self._places.append(
            Place(
                argument=argument,
                where=place.where,
                name=place.name,
                style=place.style,
                explode=place.explode,
                as_json=place.as_json,
            )
        )

    def _free_name(self, place: Place) -> str:
        return free_name(
            place.name, taken=self._properties, otherwise="body" if place.where is Where.FIELD else place.where.value
        )


def free_name(name: str, *, taken: Node, otherwise: str) -> str:
    """A name that models' APIs take for an argument, and that nobody has."""
    plain = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "_"
    if plain not in taken:
        return plain
    free = longer = f"{otherwise}_{plain}"[: _LONGEST_NAME - 4]
    number = 2
    while free in taken:
        free, number = f"{longer}_{number}", number + 1
    return free
