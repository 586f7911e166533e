"""The schema that the syntax tree gives and what msgspec itself makes of the same hints say the same."""

import typing
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from jackfield.sources.pyfile.reader import read_file

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5).filter(lambda number: not number.is_integer())  # 3.0 is an integer to JSON Schema alone
    | st.sampled_from(["", "a", "b", "c"])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "x"]), inner, max_size=2),
    max_leaves=4,
)


class Hint(NamedTuple):
    """A hint as it is written, and values that fit it."""

    text: str
    values: st.SearchStrategy[Any]


PLAIN = st.sampled_from(
    [
        Hint("str", st.text(max_size=3)),
        Hint("int", st.integers(-(2**53), 2**53)),
        Hint("float", st.integers(-5, 5) | st.floats(-5, 5).filter(lambda number: not number.is_integer())),
        Hint("bool", st.booleans()),
        Hint("None", st.none()),
        Hint("Any", ANYTHING),
        Hint("Literal['a', 'b', None]", st.sampled_from(["a", "b", None])),
        Hint("Literal[1, 2]", st.sampled_from([1, 2])),
    ]
)
HINTS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map(lambda hint: Hint(f"list[{hint.text}]", st.lists(hint.values, max_size=3))),
        inner.map(lambda hint: Hint(f"Sequence[{hint.text}]", st.lists(hint.values, max_size=3))),
        inner.map(lambda hint: Hint(f"tuple[{hint.text}, ...]", st.lists(hint.values, max_size=3))),
        inner.map(lambda hint: Hint(f"dict[str, {hint.text}]", st.dictionaries(st.text(max_size=2), hint.values))),
        inner.map(lambda hint: Hint(f"Optional[{hint.text}]", st.none() | hint.values)),
        inner.map(lambda hint: Hint(f"Annotated[{hint.text}, 'words']", hint.values)),
        st.tuples(inner, inner).map(
            lambda pair: Hint(
                f"tuple[{pair[0].text}, {pair[1].text}]", st.tuples(*(hint.values for hint in pair)).map(list)
            )
        ),
        st.tuples(inner, inner).map(
            lambda pair: Hint(f"Union[{pair[0].text}, {pair[1].text}]", pair[0].values | pair[1].values)
        ),
    ),
    max_leaves=4,
)
PARAMETERS = st.dictionaries(
    st.sampled_from(["alpha", "beta", "gamma"]), st.tuples(HINTS, st.booleans()), min_size=1, max_size=3
)
WORDS: dict[str, Any] = {
    name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union", "Sequence", "Annotated")
}


@given(PARAMETERS, st.data())
def test_the_schema_accepts_exactly_the_arguments_that_msgspec_accepts(parameters: Any, data: Any) -> None:
    shape = typed_dict(parameters)
    assume(msgspec_knows(shape))
    assume(
        not any("Literal[1" in hint.text and "float" in hint.text for hint, _ in parameters.values())
    )  # msgspec: no 3
    ours, theirs = schema_by_reading(parameters), msgspec.json.schema(shape)

    for _ in range(5):
        arguments = {
            name: data.draw(hint.values if data.draw(st.integers(0, 3)) else ANYTHING)
            for name, (hint, _) in parameters.items()
            if data.draw(st.integers(0, 9))
        }
        accepted = jsonschema_rs.validator_for(ours).is_valid(arguments)
        assert accepted == msgspec_accepts(arguments, shape)
        assert accepted == jsonschema_rs.validator_for(theirs).is_valid(arguments)


def schema_by_reading(parameters: dict[str, tuple[Hint, bool]]) -> Any:
    ordered = ", ".join(
        f"{name}: {hint.text}" + (" = ..." if optional else "") for name, (hint, optional) in parameters.items()
    )
    text = f"from typing import {', '.join(WORDS)}\ndef tool(*, {ordered}): ...\n"
    reading = read_file(text, label="generated.py")
    assert reading.faults == ()
    return reading.functions[0].input_schema


def typed_dict(parameters: dict[str, tuple[Hint, bool]]) -> Any:
    made = {name: eval(hint.text, dict(WORDS)) for name, (hint, _) in parameters.items()}
    make: Any = typing.TypedDict
    return make(
        "Arguments", {name: typing.NotRequired[made[name]] if parameters[name][1] else made[name] for name in made}
    )


def msgspec_knows(shape: Any) -> bool:
    try:
        msgspec.inspect.type_info(shape)
    except TypeError:
        return False  # for example a union of two kinds of list
    return True


def msgspec_accepts(arguments: dict[str, Any], shape: Any) -> bool:
    try:
        msgspec.convert(arguments, shape)
    except msgspec.ValidationError:
        return False
    return True
