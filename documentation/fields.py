"""What a typed record says about its fields: name, type in plain words, default, and the docstring below the field.

Below: `jackfield` itself, whose records are msgspec structs.
"""

import ast
import enum
import inspect
import itertools
import textwrap
from functools import cache
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec import inspect as types

_LIMITS = {
    "gt": "more than {}",
    "ge": "at least {}",
    "lt": "less than {}",
    "le": "at most {}",
    "min_length": "at least {} long",
    "max_length": "at most {} long",
}
_PLAIN = {
    types.StrType: "text",
    types.BoolType: "true or false",
    types.IntType: "whole number",
    types.FloatType: "number",
    types.AnyType: "any value",
    types.RawType: "any value",
    types.NoneType: "null",
    types.DateTimeType: "time",
}


class FieldDoc(Struct, frozen=True, kw_only=True):
    """One field as a page shows it."""

    name: str
    type: types.Type
    words: str
    """Its type in plain words."""
    is_required: bool
    default: Any
    meaning: str


def fields_of(record: type[Struct]) -> list[FieldDoc]:
    """Every field, in the order of the code."""
    info = types.type_info(record)
    assert isinstance(info, types.StructType)
    written = _docstrings(record)
    return [
        FieldDoc(
            name=field.encode_name,
            type=field.type,
            words=words_for(field.type),
            is_required=field.required,
            default=_default(field),
            meaning=_described(field.type) or written.get(field.name, ""),
        )
        for field in info.fields
    ]


def summary_of(thing: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(_own_docstring(thing).split("\n\n")[0].split())


def words_for(kind: types.Type) -> str:
    """A type as a sentence names it."""
    match kind:
        case types.Metadata(type=inner):
            return words_for(inner)
        case types.UnionType(types=several):
            return " or ".join(dict.fromkeys(words_for(one) for one in several if not _is_nothing(one)))
        case types.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case types.EnumType(cls=cls):
            return ", ".join(f"`{member.value}`" for member in cls)
        case types.StructType(cls=cls):
            return f"table ({cls.__name__})"
        case types.DictType(value_type=value):
            return f"table of {_plural(words_for(value))}"
        case types.TupleType(item_types=()):
            return "empty list"
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item) | types.SetType(item_type=item):
            return f"list of {_plural(words_for(item))}"
        case types.FrozenSetType(item_type=item):
            return f"list of {_plural(words_for(item))}"
        case _:
            return _limited(kind, _PLAIN.get(type(kind), "any value"))


def struct_in(kind: types.Type) -> tuple[type[Struct], str] | None:
    """The record that a field holds, and how: `one`, `by_name`, `list`. None: it holds none."""
    match kind:
        case types.Metadata(type=inner):
            return struct_in(inner)
        case types.StructType(cls=cls):
            return cls, "one"
        case types.UnionType(types=several):
            return next((found for one in several if (found := struct_in(one)) is not None), None)
        case types.DictType(value_type=value):
            held = struct_in(value)
            return None if held is None else (held[0], "by_name")
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            held = struct_in(item)
            return None if held is None else (held[0], "list")
        case _:
            return None


def _described(kind: types.Type) -> str:
    """What `Meta(description=…)` says."""
    match kind:
        case types.Metadata(type=inner, extra_json_schema=schema):
            return str((schema or {}).get("description", "")) or _described(inner)
        case types.UnionType(types=several):
            return next((said for one in several if (said := _described(one))), "")
        case _:
            return ""


def _limited(kind: types.Type, word: str) -> str:
    limits = [
        says.format(f"{value:,}" if isinstance(value, int) else value)
        for name, says in _LIMITS.items()
        if (value := getattr(kind, name, None)) is not None and (name, value) != ("min_length", 1)
    ]
    return f"{word}, {', '.join(limits)}" if limits else word


def _is_nothing(kind: types.Type) -> bool:
    return isinstance(kind, types.NoneType)


def _plural(word: str) -> str:
    plain = {"text": "texts", "any value": "values", "number": "numbers", "whole number": "whole numbers"}
    return plain.get(word, word.replace("table (", "tables (", 1) if word.startswith("table (") else word)


def _default(field: types.Field) -> Any:
    if field.default is not NODEFAULT:
        return None if field.default is UNSET else field.default
    return None if field.default_factory is NODEFAULT else field.default_factory()


@cache
def _docstrings(record: type[Any]) -> dict[str, str]:
    """The strings below the fields of a class and of the classes it is made from."""
    found: dict[str, str] = {}
    for cls in reversed(record.__mro__):
        if cls.__module__.partition(".")[0] != "jackfield":
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        found |= strings_below(tree.body)
    return found


def strings_below(body: list[ast.stmt]) -> dict[str, str]:
    """By name: the string that stands below an assignment, on one line."""
    found: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        match statement, following:
            case (
                (ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)])),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found


def _own_docstring(thing: Any) -> str:
    """A class has its parents' docstring for `inspect.getdoc`; here it has only its own."""
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    return inspect.cleandoc(text or "")


def shown_default(value: Any) -> str:
    """A default as a config file or a page writes it; nothing for one that is left out."""
    if value is None or value is UNSET or isinstance(value, Struct) or value in ((), {}, [], ""):
        return ""
    if isinstance(value, enum.Enum):
        return f"`{value.value}`"
    return f"`{msgspec.json.encode(value).decode()}`"
