"""`reference/config.md`: every table and key of `jackfield.toml`, from the types that read it."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec import inspect as types

from documentation.fields import FieldDoc, fields_of, shown_default, struct_in, summary_of
from documentation.markdown import page, table
from jackfield.llm.types import OpenAIOptions, Price, ScriptedOptions
from jackfield.model.tool import Metadata
from jackfield.settings.loading import _Document
from jackfield.settings.tools import SourceSettings, ToolOverride, ToolSettings
from jackfield.settings.types import SandboxSettings
from jackfield.sources.files import FilesOptions
from jackfield.sources.manifest.options import ManifestOptions
from jackfield.sources.mcp.options import McpOptions
from jackfield.sources.openapi.options import OpenApiOptions
from jackfield.sources.skills.source import SkillsOptions

SOURCE_KINDS: dict[str, type[Struct]] = {
    "files": FilesOptions,
    "mcp": McpOptions,
    "openapi": OpenApiOptions,
    "manifest": ManifestOptions,
    "skills": SkillsOptions,
}
PROVIDERS: dict[str, type[Struct]] = {"openai": OpenAIOptions, "scripted": ScriptedOptions}
_OF_ANY_SOURCE = {"accepts_changes": "on_change", "holds_new": "on_new"}
"""Fields of `SourceSettings` whose key in the file has another name."""
_WORDS_FOR_CHOICES = {"on_change": ("`hold`, `accept`", '`"hold"`'), "on_new": ("`hold`, `accept`", '`"accept"`')}


class Section(Struct, frozen=True, kw_only=True):
    """One table of the config file."""

    title: str
    record: type[Struct]
    fields: list[FieldDoc]
    about: str = ""


def config_page() -> str:
    """The whole page."""
    parts = [
        (
            "Every table and key of `jackfield.toml`, made from the code that reads it. A key without a default can "
            "be left out unless it is marked as required. [Configuration](../configuration.md) explains them in "
            "context, and `GET /api/v1/config` shows what is in force."
        ),
    ]
    for section in sections():
        parts.append(f"## `{section.title}`")
        parts.append(section.about)
        parts.append(table(["key", "type", "default", "meaning"], map(_row, section.fields)))
    return page("Config reference", *parts)


def sections() -> Iterator[Section]:
    """All tables, in the order of the file's own type; what a table holds follows it."""
    for field in fields_of(_Document):
        match field.name:
            case "sources":
                yield from _sources()
            case "models":
                yield from _models()
            case "tools":
                yield from _of("[[tools]]", ToolSettings)
            case _:
                yield from _of_field("", field)


def _of_field(prefix: str, field: FieldDoc) -> Iterator[Section]:
    held = struct_in(field.type)
    if held is None:
        return
    record, how = held
    path = f"{prefix}{field.name}"
    title = {"one": f"[{path}]", "by_name": f"[{path}.NAME]", "list": f"[[{path}]]"}[how]
    yield from _of(title, record)


def _of(title: str, record: type[Struct], about: str = "") -> Iterator[Section]:
    fields = fields_of(record)
    yield Section(title=title, record=record, fields=fields, about=about)
    path = title.strip("[]")
    for field in fields:
        held = struct_in(field.type)
        if held is not None and held[0] is SandboxSettings and "sources" in path:
            continue  # the same as that of sessions
        yield from _of_field(f"{path}.", field)


def _sources() -> Iterator[Section]:
    fields = [_as_key(field) for field in fields_of(SourceSettings) if field.name not in ("name", "options", "tools")]
    yield Section(
        title="[sources.NAME]",
        record=SourceSettings,
        fields=fields,
        about="Keys of every source. The others depend on its `kind`.",
    )
    for field in fields:
        if field.name == "oauth":
            yield from _of_field("sources.NAME.", field)
    yield from _of("[sources.NAME.tools.TOOL]", ToolOverride)
    yield Section(
        title="[sources.NAME.tools.TOOL.metadata]",
        record=Metadata,
        fields=fields_of(Metadata),
        about="The same as `[tools.metadata]`; what is given takes the place of what the source says.",
    )
    for kind, record in SOURCE_KINDS.items():
        about = "`sandbox` is `true`, or a table with the keys of [`[sessions.NAME.sandbox]`](#sessionsnamesandbox)."
        fields = fields_of(record)
        has_sandbox = any(field.name == "sandbox" for field in fields)
        title = f'[sources.NAME] with kind = "{kind}"'
        yield Section(title=title, record=record, fields=fields, about=about if has_sandbox else "")
        for field in fields:
            held = struct_in(field.type)
            if held is not None and held[0] is not SandboxSettings:
                yield from _tables_in(f"sources.NAME.{field.name}", field)


def _tables_in(path: str, field: FieldDoc) -> Iterator[Section]:
    """The tables that a field may hold; several where `type` chooses."""
    kinds = field.type.types if isinstance(field.type, types.UnionType) else (field.type,)
    for kind in kinds:
        if isinstance(kind, types.StructType):
            tag = f' with {kind.tag_field} = "{kind.tag}"' if kind.tag_field else ""
            yield Section(
                title=f"[{path}]{tag}", record=kind.cls, fields=fields_of(kind.cls), about=summary_of(kind.cls)
            )


def _models() -> Iterator[Section]:
    for provider, record in PROVIDERS.items():
        title = f'[models.NAME] with provider = "{provider}"'
        yield Section(title=title, record=record, fields=fields_of(record))
    about = "What a million tokens of a model cost. A key of every model, whatever its provider."
    yield Section(title="[models.NAME.price]", record=Price, fields=fields_of(Price), about=about)


def _as_key(field: FieldDoc) -> FieldDoc:
    """A field of `SourceSettings` as the file spells it."""
    name = _OF_ANY_SOURCE.get(field.name, field.name)
    if name not in _WORDS_FOR_CHOICES:
        return FieldDoc(
            name=name,
            type=field.type,
            words=field.words,
            is_required=field.is_required,
            default=field.default,
            meaning=field.meaning,
        )
    words, default = _WORDS_FOR_CHOICES[name]
    return FieldDoc(name=name, type=field.type, words=words, is_required=False, default=default, meaning=field.meaning)


def _row(field: FieldDoc) -> tuple[str, str, str, str]:
    held = struct_in(field.type)
    words = field.words
    if held is not None:
        words = {"one": "table", "by_name": "tables", "list": "list of tables"}[held[1]]
        if isinstance(field.type, types.UnionType) and any(isinstance(one, types.BoolType) for one in field.type.types):
            words = "true, false or a table"
    default = field.default if field.name in _WORDS_FOR_CHOICES else shown_default(field.default)
    return f"`{field.name}`", words, "required" if field.is_required else default, field.meaning
