"""An OpenAPI document: its version, its references, its servers, and Swagger 2.0 converted to OpenAPI 3. Pure.

References are followed within the document only. A document may name any server; one that is not on the document's own
origin is refused unless the config says so, or whoever writes the document could have our credentials sent anywhere.
"""

import re
from typing import Any
from urllib.parse import unquote

import httpx2
import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.outgoing import OutgoingBadUrl
from jackfield.outgoing.urls import named_origin, origin_of, parse_url
from jackfield.sources.openapi.yaml_text import BadYaml, read_yaml

MAX_DOCUMENT = 32 * 1024 * 1024
MOST_HOPS = 16
"""References in a row."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SWAGGER = ("2.0", "2")
_VERSION = re.compile(r"3\.\d+(\.|$)")
_SHOWN = 120

Node = dict[str, Any]
_VARIABLE = re.compile(r"\{([^{}]*)\}")
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


class Unreadable(JackfieldError):
    """The document as a whole cannot be used."""

    code = "bad_document"


class Unusable(Exception):
    """One operation cannot be offered. The message follows "is left out: "."""


class Document:
    """A document of OpenAPI 3, or of Swagger 2, whose operations `operation_of` converts."""

    def __init__(self, root: Node, *, is_swagger: bool = False) -> None:
        self.root = root
        self.paths: Node = _object(root.get("paths"))
        self.is_swagger = is_swagger

    def at(self, reference: Any) -> Any:
        """What a `$ref` points to, which must be in this document."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise Unusable(f"it refers to {shown(reference)}, and nothing outside the document is fetched")
        found: Any = self.root
        for step in unquote(reference[2:]).split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and len(key) < len(str(len(found))) + 1:
                found = found[int(key)] if int(key) < len(found) else None
            else:
                raise Unusable(f"it refers to {shown(reference)}, which is not in the document")
        return found

    def resolved(self, node: Any, *, what: str) -> Node:
        """The object itself, references resolved."""
        for _ in range(MOST_HOPS):
            if not isinstance(node, dict):
                raise Unusable(f"its {what} is not an object")
            if "$ref" not in node:
                return node
            node = self.at(node["$ref"])
        raise Unusable(f"the references of its {what} lead in a circle")


def read_document(content: bytes) -> Document:
    """The document in these bytes, JSON or YAML. Raises `Unreadable`; its message follows the document's name."""
    text = content.removeprefix(_BYTE_ORDER_MARK).lstrip()
    root = _json(text) if text[:1] in (b"{", b"[") else _yaml(content)
    if not isinstance(root, dict):
        raise Unreadable("is not an OpenAPI document: it is not an object.")
    if not isinstance(root.get("paths", {}), dict):
        raise Unreadable("is not an OpenAPI document: its 'paths' is not an object.")
    if not root.keys() & {"paths", "components", "webhooks"} and root.keys() & {"openapi", "swagger"}:
        raise Unreadable("is not a complete OpenAPI document: it has no 'paths'.")
    version = root.get("openapi")
    if isinstance(version, float):  # `openapi: 3.1` in YAML
        version = str(version)
    if "swagger" in root and version is None:
        if str(root["swagger"]) not in _SWAGGER:
            raise Unreadable(f"is of Swagger {shown(str(root['swagger']))[1:-1]}; Swagger 2.0 and OpenAPI 3 are read.")
        return Document(root, is_swagger=True)
    if not isinstance(version, str) or not _VERSION.match(version):
        raise Unreadable(f"is not an OpenAPI 3 document: its 'openapi' is {shown(version)}.")
    return Document(root)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise Unreadable(f"is not valid JSON: {fault}.") from None
    except RecursionError:
        raise Unreadable("is nested too deep to be read.") from None


def _yaml(content: bytes) -> Any:
    if content.lstrip()[:1] == b"<":
        raise Unreadable("is a web page or XML, which no OpenAPI document is. Check its url.")
    try:
        return read_yaml(content)
    except BadYaml as fault:
        raise Unreadable(f"is neither JSON nor valid YAML: {fault}.") from None


def shown(value: Any) -> str:
    """Foreign text in a message: quoted, on one line, short."""
    text = value if isinstance(value, str) else type(value).__name__ if value is not None else "missing"
    line = "".join(character if character.isprintable() else " " for character in text[: _SHOWN + 1])
    return f"'{line}'" if len(line) <= _SHOWN else f"'{line[:_SHOWN]}…'"


def _object(value: Any) -> Node:
    return value if isinstance(value, dict) else {}


def object_in(node: Node, key: str) -> Node:
    """`node[key]`, or an empty object where there is none."""
    return _object(node.get(key))


def list_in(node: Node, key: str) -> list[Any]:
    """`node[key]`, or an empty list where there is none."""
    value = node.get(key)
    return value if isinstance(value, list) else []


def text_in(node: Node, key: str) -> str:
    """`node[key]`, or no text where there is none."""
    value = node.get(key)
    return value if isinstance(value, str) else ""


class Base(Struct, frozen=True, kw_only=True):
    """The base url of an operation, without a slash at its end."""

    url: str
    named_by: str
    """The config's own url, on the same origin."""
    by_document: bool
    """Whether the document chose it."""


def base_of(servers: list[Any], *, url: str | None, base_url: str | None) -> Base:
    """The base url of a document with these servers. Raises `Unreadable`."""
    if base_url is not None:
        return Base(url=base_url.rstrip("/"), named_by=base_url, by_document=False)
    assert url is not None
    servers = servers or [{"url": "/"}]
    found = _same_origin(servers, url)
    if found is None:
        raise Unreadable(
            f"says that the service is at {shown(_first_url(servers))}, which is not where the document is from. "
            "Set base_url to where calls are to go."
        )
    return Base(url=found, named_by=url, by_document=True)


def own_base(nodes: tuple[Node, ...], base: Base) -> Base:
    """The base of an operation that may have servers of its own. The first of `nodes` that has some counts.

    Where the operator says where the service is, all of it is there: what the document says is about another place.
    """
    if not base.by_document:
        return base
    servers = next((own for node in nodes if (own := list_in(node, "servers"))), None)
    if servers is None:
        return base
    found = _same_origin(servers, f"{base.url}/")
    if found is None:
        raise Unusable(f"it is on another server ({shown(_first_url(servers))}) than the rest")
    return Base(url=found, named_by=base.named_by, by_document=True)


def _same_origin(servers: list[Any], url: str) -> str | None:
    """The first server on the origin of `url`, which relative ones start from."""
    for server in servers:
        if not isinstance(server, dict):
            continue
        try:
            found = parse_url(httpx2.URL(url).join(_filled(server)))
        except (OutgoingBadUrl, httpx2.InvalidURL):
            continue
        if origin_of(found) == named_origin(url) and not found.userinfo:
            return str(found.copy_with(query=None)).rstrip("/")
    return None


def _filled(server: Node) -> str:
    variables = object_in(server, "variables")
    url = _VARIABLE.sub(lambda found: text_in(object_in(variables, found[1]), "default"), text_in(server, "url"))
    return url or "/"


def _first_url(servers: list[Any]) -> Any:
    return servers[0].get("url") if isinstance(servers[0], dict) else None


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
    parameters: dict[tuple[str, str], Node] = {}
    for holder in (item, node):
        for raw in list_in(holder, "parameters"):
            parameter = document.resolved(raw, what="parameter")
            parameters[text_in(parameter, "in"), text_in(parameter, "name")] = parameter
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
