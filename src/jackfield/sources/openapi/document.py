"""An OpenAPI document: read, its version checked, its references followed within it. Pure.

Above: everything of this room that looks into a document. Below: msgspec.
"""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from jackfield.errors import JackfieldError

MAX_DOCUMENT = 32 * 1024 * 1024
MOST_HOPS = 16
"""References that may lead from one to the next."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_VERSION = re.compile(r"3\.\d+(\.|$)")
_SHOWN = 120

Node = dict[str, Any]


class Unreadable(JackfieldError):
    """The document as a whole cannot be used."""

    code = "bad_document"


class Unusable(Exception):
    """One operation cannot be offered; the text stands after "is left out: "."""


class Document:
    """A document of OpenAPI 3."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.paths: Node = _object(root.get("paths"))

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
    """The document in these bytes. Raises `Unreadable`; the text stands after the name of the document."""
    text = content.removeprefix(_BYTE_ORDER_MARK).lstrip()
    try:
        root = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        if text[:1] not in (b"{", b"["):
            raise Unreadable(
                "is not JSON. Documents in YAML are not read: give its JSON form, which most services have too."
            ) from None
        raise Unreadable(f"is not valid JSON: {fault}.") from None
    except RecursionError:
        raise Unreadable("is nested too deep to be read.") from None
    if not isinstance(root, dict):
        raise Unreadable("is no OpenAPI document: it is no object.")
    if "swagger" in root and "openapi" not in root:
        raise Unreadable("is of Swagger 2. Convert it to OpenAPI 3.")
    version = root.get("openapi")
    if not isinstance(version, str) or not _VERSION.match(version):
        raise Unreadable(f"is no document of OpenAPI 3: its 'openapi' is {shown(version)}.")
    if not isinstance(root.get("paths", {}), dict):
        raise Unreadable("is no OpenAPI document: its 'paths' is no object.")
    return Document(root)


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
