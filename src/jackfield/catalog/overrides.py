"""What the operator says about a tool, laid over what its source says.

Above: `merge.py`. Below: nothing. Pure.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from jackfield.catalog.names import CatalogNotice, legal, neighbours
from jackfield.model.text import nearest
from jackfield.model.tool import Metadata, Tool
from jackfield.settings import ToolOverride

_SAME_NAME = ("description", "category", "visible", "is_async")


def apply_override(tool: Tool, override: ToolOverride) -> Tool:
    """`tool` with each field that the operator gave. Metadata is laid over field by field, lists as a whole.

    An operator who gives `metadata.timeout_seconds` and no `timeout` means the limit of a call, so it also replaces
    the source's `timeout_ms`, which would otherwise be stronger.
    """
    changes: dict[str, Any] = {field: value for field in _SAME_NAME if (value := getattr(override, field)) is not None}
    if override.metadata:
        given = msgspec.convert(override.metadata, Metadata)
        changes["metadata"] = msgspec.structs.replace(
            tool.metadata, **{field: getattr(given, field) for field in override.metadata}
        )
        if given.timeout_seconds is not None:
            changes["timeout_ms"] = given.timeout_seconds * 1000
    if override.timeout is not None:
        changes["timeout_ms"] = override.timeout
    if override.expires_in is not None:
        changes["expires_in_ms"] = override.expires_in
    return msgspec.structs.replace(tool, **changes)


def assign(
    source: str, foreign_names: Collection[str], overrides: Mapping[str, ToolOverride]
) -> tuple[dict[str, ToolOverride], list[CatalogNotice]]:
    """Which tool of `source` each override means, and a notice for each that means none.

    The tool's own spelling counts first, then its legal form (`a_b` for `a-b`, unless there is a real `a_b`). A source
    without any tool is most likely not up yet, so nothing is said about it.
    """
    if not overrides or not foreign_names:
        return {}, []
    own = set(foreign_names)
    by_legal_form: dict[str, list[str]] = {}
    for foreign in own:
        by_legal_form.setdefault(legal(foreign), []).append(foreign)
    meant: dict[str, ToolOverride] = {}
    notices: list[CatalogNotice] = []
    for name, override in overrides.items():
        targets = [name] if name in own else by_legal_form.get(name, [])
        meant.update(
            dict.fromkeys((target for target in targets if target not in overrides or target == name), override)
        )
        if not targets:
            notices.append(_unmatched(source, name, own))
    return meant, notices


def _unmatched(source: str, name: str, own: set[str]) -> CatalogNotice:
    hint = nearest(name, neighbours(name, sorted(own)))
    return CatalogNotice(
        public_name=name,
        sources=(source,),
        message=f"The config has [sources.{source}.tools.{name}], but '{source}' has no tool '{name}'.{hint} "
        "Correct the name, or remove the override.",
    )
