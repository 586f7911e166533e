"""The parameters and the body of an operation as one schema, and where each argument goes in the request. Pure.

Above: `operations.py`. Below: `parameters.py`, which reads them, and `schemas.py`. A JSON or form body that is a plain
object has its fields among the arguments; any other body is one argument, `body`. Where two would have the same name,
the later one's place stands before it (`query_id`, `body_id`).
"""

import re

from msgspec import Struct

from jackfield.sources.hidden import cleaned
from jackfield.sources.openapi.credentials import Credentials
from jackfield.sources.openapi.document import Document, Node
from jackfield.sources.openapi.parameters import (
    MOST_PARAMETERS,
    Body,
    Media,
    Parameter,
    Place,
    Where,
    body_of,
    parameters_of,
)
from jackfield.sources.openapi.schemas import Converted, Schemas

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 64
_ABOUT_PROPERTIES = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})


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
    for parameter in parameters_of(path, nodes, document, credentials):
        gathered.add_parameter(parameter)
    gathered.add_body(body_of(nodes[0], document))
    return gathered.inputs()


class _Gathered:
    """The schema as it grows."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._properties: Node = {}
        self._required: list[str] = []
        self._places: list[Place] = []
        self._parts: dict[str, None] = {}
        self._body: Body | None = None
        self._has_to_send = False

    def add_parameter(self, parameter: Parameter) -> None:
        place = parameter.place
        self._add(place, self._schemas.converted(parameter.schema), parameter.description, required=parameter.required)

    def add_body(self, body: Body | None) -> None:
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
