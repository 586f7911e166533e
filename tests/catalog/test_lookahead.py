"""Looking ahead at the beginning of a text is matching it twice: written so, a pattern is matched in linear time."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.lookahead import without_lookahead
from jackfield.catalog.schemas import ArgumentChecker, fault_in

PATTERNS = [
    r"^(?!msg_)[a-z_]{1,8}(?![\s\S])",
    r"^(?!\.{1,2}(?![\s\S]))[a-z.]{1,8}(?![\s\S])",
    r"^(?=.*[a-z])(?=.*\.)[a-z._]+$",
    r"^(?!a|m)[a-z_]+$",
    r"^(?![)(\]]a)[a-z]*",
    r"^(?!a)(?:m|s)+",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text(alphabet="amsg_.b\n", max_size=8))
def test_the_same_texts_fit_as_before(pattern: str, text: str) -> None:
    assert fault_in({"pattern": pattern}, is_foreign=True) is None
    checker = ArgumentChecker({"pattern": pattern})
    assert checker.is_linear
    assert (checker.check(text) == []) == bool(re.search(pattern.replace("$", r"\Z"), text))
    assert checker.check(3) == [], "a pattern is about texts"


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^[a-z]+$"},
        {"pattern": "a(?!b)"},
        {"pattern": "^(?!a)b|c"},
        {"pattern": "^(?!a)*b"},
        {"const": {"pattern": "^(?!a)b"}},
        {"properties": {"pattern": {"type": "string"}}},
        {"pattern": "^(?!a", "type": "string"},
    ],
)
def test_what_cannot_be_said_otherwise_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert without_lookahead(schema) is schema


def test_demands_that_were_there_stay() -> None:
    schema = {"properties": {"a": {"pattern": "^(?!a)b", "allOf": [{"maxLength": 3}], "title": "A"}}}
    assert without_lookahead(schema) == {
        "properties": {
            "a": {
                "pattern": "^b",
                "allOf": [{"maxLength": 3}, {"not": {"type": "string", "pattern": "^(?:a)"}}],
                "title": "A",
            }
        }
    }
