"""An OpenAPI document: read, its version checked, its references followed within it. Pure.

Above: everything of this room that looks into a document. Below: msgspec, `yaml_text.py`.
"""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from jackfield.errors import JackfieldError
from jackfield.sources.openapi.yaml_text import BadYaml, read_yaml

MAX_DOCUMENT = 32 * 1024 * 1024
MOST_HOPS = 16
"""References that may lead from one to the next."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SWAGGER = ("2.0", "2")
_VERSION = re.compile(r"3\.\d+(\.|$)")
_SHOWN = 120

Node = dict[str, Any]


class Unreadable(JackfieldError):
    """The document as a whole cannot be used."""

    code = "bad_document"


class Unusable(Exception):
    """One operation cannot be offered; the text stands after "is left out: "."""


class Document:
    """A document of OpenAPI 3, or of Swagger 2, whose operations `swagger.py` says in the words of OpenAPI 3."""

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
        """The object that is meant, past all references."""
        for _ in range(MOST_HOPS):
            if not isinstance(node, dict):
                raise Unusable(f"its {what} is no object")
            if "$ref" not in node:
                return node
            node = self.at(node["$ref"])
        raise Unusable(f"the references of its {what} lead in a circle")


def read_document(content: bytes) -> Document:
    """The document in these bytes, JSON or YAML. Raises `Unreadable`; the text stands after the document's name."""
    text = content.removeprefix(_BYTE_ORDER_MARK).lstrip()
    root = _json(text) if text[:1] in (b"{", b"[") else _yaml(content)
    if not isinstance(root, dict):
        raise Unreadable("is no OpenAPI document: it is no object.")
    if not isinstance(root.get("paths", {}), dict):
        raise Unreadable("is no OpenAPI document: its 'paths' is no object.")
    if not root.keys() & {"paths", "components", "webhooks"} and root.keys() & {"openapi", "swagger"}:
        raise Unreadable("is no whole OpenAPI document: it has no 'paths'.")
    version = root.get("openapi")
    if isinstance(version, float):  # `openapi: 3.1` in YAML
        version = str(version)
    if "swagger" in root and version is None:
        if str(root["swagger"]) not in _SWAGGER:
            raise Unreadable(f"is of Swagger {shown(str(root['swagger']))[1:-1]}; Swagger 2.0 and OpenAPI 3 are read.")
        return Document(root, is_swagger=True)
    if not isinstance(version, str) or not _VERSION.match(version):
        raise Unreadable(f"is no document of OpenAPI 3: its 'openapi' is {shown(version)}.")
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
    """Foreign text within a sentence: on one line, short."""
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
