"""Operations of Swagger 2.0 in the words of OpenAPI 3. Pure.

Above: `operations.py`. Below: `document.py`. Only what an operation takes and where the service is are said otherwise
there; schemas stay where they are (`#/definitions/…`), and references to them with them.
"""

from typing import Any

from jackfield.sources.openapi.document import Document, Node, Unusable, list_in, text_in

_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_JSON = "application/json"
_NOT_SCHEMA = frozenset(
    {"name", "in", "description", "required", "collectionFormat", "allowEmptyValue", "schema", "x-example"}
)
_STYLES = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}


def servers_of(root: Node) -> list[Node]:
    """Where the service is: by `schemes`, `host` and `basePath`, each of which may be left out."""
    host, path = text_in(root, "host"), "/" + text_in(root, "basePath").strip("/")
    if not host:
        return [{"url": path}]
    schemes = [scheme for scheme in list_in(root, "schemes") if isinstance(scheme, str)]
    # Without a scheme it is that of the document, as for a link that begins with two slashes.
    return [{"url": f"{scheme}://{host}{path}"} for scheme in schemes] or [{"url": f"//{host}{path}"}]


def operation_of(node: Node, item: Node, document: Document) -> Node:
    """The operation with its parameters as OpenAPI 3 has them, and a `requestBody`. Raises `Unusable`."""
    parameters: dict[tuple[Any, Any], Node] = {}
    for holder in (item, node):
        for raw in list_in(holder, "parameters"):
            parameter = document.resolved(raw, what="parameter")
            parameters[parameter.get("in"), parameter.get("name")] = parameter
    kept = [_parameter(one) for (place, _), one in parameters.items() if place not in ("body", "formData")]
    bodies = [one for (place, _), one in parameters.items() if place == "body"]
    fields = [one for (place, _), one in parameters.items() if place == "formData"]
    if len(bodies) > 1 or (bodies and fields):
        raise Unusable("it has more than one body")
    made = {key: value for key, value in node.items() if key not in ("parameters", "requestBody")}
    made["parameters"] = kept
    consumes = _consumed(node, document.root)
    if bodies:
        made["requestBody"] = _body(bodies[0], consumes)
    elif fields:
        made["requestBody"] = _form(fields, consumes)
    return made


def _consumed(node: Node, root: Node) -> list[str]:
    """An operation's own list replaces that of the document, also where it is empty."""
    found = list_in(node if "consumes" in node else root, "consumes")
    return [media for media in found if isinstance(media, str)]


def _parameter(node: Node) -> Node:
    made: Node = {key: node[key] for key in ("name", "in", "description", "required") if key in node}
    made["schema"] = _schema(node)
    if node.get("type") == "array":
        style, explode = _STYLES.get(text_in(node, "collectionFormat") or "csv", ("form", False))
        if node.get("in") == "query":
            made["style"] = style
        made["explode"] = explode
    return made


def _schema(node: Node) -> Any:
    return {key: value for key, value in node.items() if key not in _NOT_SCHEMA}


def _body(node: Node, consumes: list[str]) -> Node:
    content = {media: {"schema": node.get("schema", {})} for media in consumes or [_JSON]}
    return {"content": content, "required": node.get("required") is True, "description": text_in(node, "description")}


def _form(fields: list[Node], consumes: list[str]) -> Node:
    properties: Node = {}
    encoding: Node = {}
    for field in fields:
        name = text_in(field, "name")
        schema = _schema(field)
        if schema.get("type") == "file":
            schema = {"type": "string", "format": "binary"}
        if text_in(field, "description"):
            schema["description"] = field["description"]
        if field.get("type") == "array" and field.get("collectionFormat") != "multi":
            style, explode = _STYLES.get(text_in(field, "collectionFormat") or "csv", ("form", False))
            encoding[name] = {"style": style, "explode": explode}
        properties[name] = schema
    has_file = any(field.get("type") == "file" for field in fields)
    required = [text_in(field, "name") for field in fields if field.get("required") is True]
    media = _MULTIPART if has_file or (_MULTIPART in consumes and _FORM not in consumes) else _FORM
    schema = {"type": "object", "properties": properties, "required": required}
    return {"content": {media: {"schema": schema, "encoding": encoding}}, "required": bool(required)}
