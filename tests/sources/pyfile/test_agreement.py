"""The schema that the syntax tree gives and what msgspec itself makes of the same hints say the same."""

import typing
from typing import Any

import jsonschema_rs
import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from jackfield.sources.pyfile.reader import read_file

_PLAIN = st.sampled_from(["str", "int", "float", "bool", "None"])
_LITERALS = st.lists(st.sampled_from(["'a'", "'b'", "1", "2", "None"]), min_size=1, max_size=3, unique=True).map(
    lambda values: f"Literal[{', '.join(values)}]"
)
HINTS = st.recursive(
    _PLAIN | _LITERALS | st.just("Any"),
    lambda inner: st.one_of(
        inner.map(lambda hint: f"list[{hint}]"),
        inner.map(lambda hint: f"Sequence[{hint}]"),
        inner.map(lambda hint: f"dict[str, {hint}]"),
        inner.map(lambda hint: f"Optional[{hint}]"),
        inner.map(lambda hint: f"tuple[{hint}, ...]"),
        st.tuples(inner, inner).map(lambda hints: f"tuple[{', '.join(hints)}]"),
        st.tuples(inner, inner).map(lambda hints: f"Union[{', '.join(hints)}]"),
        inner.map(lambda hint: f"Annotated[{hint}, 'words']"),
    ),
    max_leaves=4,
)
PARAMETERS = st.dictionaries(
    st.sampled_from(["alpha", "beta", "gamma"]), st.tuples(HINTS, st.booleans()), min_size=1, max_size=3
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5).filter(lambda number: not number.is_integer())
    | st.sampled_from(["", "a", "b", "c"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["alpha", "x"]), inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["alpha", "beta", "gamma"]), VALUES, max_size=3)

_WORDS: dict[str, Any] = {
    name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union", "Sequence", "Annotated")
}


@given(PARAMETERS, st.data())
def test_the_schema_accepts_exactly_the_arguments_that_msgspec_accepts(parameters, data):
    shape = _typed_dict(parameters)
    assume(_msgspec_can_use(shape))
    schema = _schema(parameters)
    arguments = data.draw(
        ARGUMENTS | st.fixed_dictionaries({name: _fitting(hint) for name, (hint, _) in parameters.items()})
    )
    arguments = {name: value for name, value in arguments.items() if name in parameters}

    accepted = jsonschema_rs.validator_for(schema).is_valid(arguments)

    assert accepted == _msgspec_accepts(arguments, shape)


@given(PARAMETERS)
def test_the_schema_accepts_exactly_what_msgspecs_own_schema_does(parameters):
    shape = _typed_dict(parameters)
    assume(_msgspec_can_use(shape))
    [theirs] = msgspec.json.schema_components([shape])[1].values()

    ours = _schema(parameters)

    assert ours["required"] == sorted(theirs["required"], key=list(parameters).index)
    assert list(ours["properties"]) == list(theirs["properties"])


def _fitting(hint: str) -> st.SearchStrategy[Any]:
    """Values that are likely to fit, so that the test does not only see refusals."""
    return st.from_type(eval(hint, dict(_WORDS))).map(_as_json).filter(_is_small)


def _as_json(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return None


def _is_small(value: Any) -> bool:
    """Numbers that JSON's readers agree on: no whole float, which is an integer to JSON Schema alone."""
    if isinstance(value, dict):
        return all(_is_small(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_is_small(inner) for inner in value)
    if isinstance(value, float):
        return not value.is_integer()
    return not isinstance(value, int) or abs(value) < 2**53


def _schema(parameters: dict[str, tuple[str, bool]]) -> Any:
    ordered = ", ".join(
        f"{name}: {hint}" + (" = ..." if optional else "") for name, (hint, optional) in parameters.items()
    )
    text = f"from typing import {', '.join(_WORDS)}\ndef tool(*, {ordered}): ...\n"
    reading = read_file(text, label="generated.py")
    assert reading.faults == ()
    return reading.functions[0].input_schema


def _typed_dict(parameters: dict[str, tuple[str, bool]]) -> Any:
    hints = {
        name: typing.NotRequired[eval(hint, dict(_WORDS))] if optional else eval(hint, dict(_WORDS))
        for name, (hint, optional) in parameters.items()
    }
    make: Any = typing.TypedDict
    return make("Arguments", hints)


def _msgspec_can_use(shape: Any) -> bool:
    try:
        msgspec.inspect.type_info(shape)
    except TypeError:
        return False  # for example a union of two kinds of list
    return True


def _msgspec_accepts(arguments: dict[str, Any], shape: Any) -> bool:
    try:
        msgspec.convert(arguments, shape)
    except msgspec.ValidationError:
        return False
    return True
