"""The parameters and the body of an operation as one schema, and where each argument goes in the request. Pure.

A JSON or form body that is a plain object has its fields, files included, among the arguments; any other body is one
argument, `body`. Where two would have the same name, the later one is prefixed by its location (`query_id`, `body_id`).
"""

import re

import msgspec
from msgspec import Struct

from jackfield.sources.foreign import cleaned
from jackfield.sources.openapi.document import Document, Node
from jackfield.sources.openapi.options import Credentials
from jackfield.sources.openapi.parameters import (
    FILE,
    MAX_PARAMETERS,
    ArgumentPlace,
    Body,
    Location,
    Media,
    Parameter,
    body_of,
    is_file,
    parameters_of,
)
from jackfield.sources.openapi.schemas import Converted, Schemas

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 64
_AS_FILE = "A file: its bytes in base64, or its text."
_ABOUT_PROPERTIES = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})


class Inputs(Struct, frozen=True, kw_only=True):
    """What an operation takes."""

    schema: Node
    places: tuple[ArgumentPlace, ...] = ()
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
    gathered = _InputBuilder(schemas)
    for parameter in parameters_of(path, nodes, document, credentials):
        gathered.add_parameter(parameter)
    gathered.add_body(body_of(nodes[0], document))
    return gathered.inputs()


class _InputBuilder:
    """Builds the schema."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._properties: Node = {}
        self._required: list[str] = []
        self._places: list[ArgumentPlace] = []
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
        if body.media in (Media.TEXT, Media.OCTETS):
            self._add_unread(body)
            return
        whole = self._schemas.converted(body.schema)
        fields = self._plain_object(whole)
        names = (
            [name for name in fields.schema.get("required", ()) if name in fields.schema["properties"]]
            if fields
            else []
        )
        is_multipart = body.media is Media.MULTIPART
        if fields is None or (names and not body.required and not is_multipart):
            place = ArgumentPlace(argument="body", where=Location.BODY, name="body")
            self._add(place, whole, body.description, required=body.required)
            return
        self._has_to_send = body.required
        for name, schema in fields.schema["properties"].items():
            kept = self._with_file(schema) if is_multipart else None
            place = _field(name, body, as_file=kept is not None)
            self._add(place, Converted(kept or schema), "", required=name in names and body.required)
        self._parts |= dict.fromkeys(fields.parts)

    def _add_unread(self, body: Body) -> None:
        """A body that is passed on as it is: one argument, text or a file."""
        is_text = body.media is Media.TEXT
        place = ArgumentPlace(argument="body", where=Location.BODY, name="body", as_file=not is_text)
        said = body.description or f"The body, of type {cleaned(body.content_type)}."
        schema: Node = {"type": "string"} if is_text else {**FILE, "description": f"{cleaned(said)} {_AS_FILE}"}
        self._add(place, Converted(schema), said, required=body.required)

    def _with_file(self, schema: Node) -> Node | None:
        """The field with what callers give for bytes, if it has bytes: one file, or a list of them."""
        plain = self._schemas.meant(schema)
        description = {key: plain[key] for key in ("description",) if key in plain}
        if is_file(plain):
            return {**FILE, **({"description": f"{plain['description']} {_AS_FILE}"} if description else {})}
        items = plain.get("items")
        if not isinstance(items, dict) or plain.get("type", "array") != "array":
            return None
        if not is_file(self._schemas.meant(items)):
            return None
        return {"type": "array", "items": FILE, **description}

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
        if not isinstance(properties, dict) or not 0 < len(properties) <= MAX_PARAMETERS:
            return None
        if schema.get("type", "object") != "object" or schema.keys() - _ABOUT_PROPERTIES:
            return None
        if schema.get("additionalProperties", False) is not False:
            return None
        required = schema.get("required", [])
        is_list = isinstance(required, list) and all(isinstance(name, str) for name in required)
        return whole if is_list else None

    def _add(self, place: ArgumentPlace, converted: Converted, description: str, *, required: bool) -> None:
        argument = self._free_name(place)
        schema = converted.schema
        if description and "description" not in schema:
            schema = {**schema, "description": cleaned(description)}
        self._properties[argument] = schema
        self._parts |= dict.fromkeys(converted.parts)
        if required:
            self._required.append(argument)
        self._places.append(msgspec.structs.replace(place, argument=argument))

    def _free_name(self, place: ArgumentPlace) -> str:
        return free_name(
            place.name, taken=self._properties, otherwise="body" if place.where is Location.FIELD else place.where.value
        )


def _field(name: str, body: Body, *, as_file: bool) -> ArgumentPlace:
    place = ArgumentPlace(argument=name, where=Location.FIELD, name=name, as_file=as_file)
    encoding = body.encodings.get(name)
    if encoding is None:
        return place
    if body.media is Media.MULTIPART:
        return place if as_file else msgspec.structs.replace(place, media_type=encoding.media_type)
    if body.media is Media.FORM and (encoding.style == "deepObject" or not encoding.explode):
        return msgspec.structs.replace(place, style=encoding.style or "form")
    return place


def free_name(name: str, *, taken: Node, otherwise: str) -> str:
    """A free name that models' APIs accept for an argument."""
    plain = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] or "_"
    if plain not in taken:
        return plain
    free = longer = f"{otherwise}_{plain}"[: _LONGEST_NAME - 4]
    number = 2
    while free in taken:
        free, number = f"{longer}_{number}", number + 1
    return free
