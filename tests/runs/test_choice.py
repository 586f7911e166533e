"""`tool_choice` and `allowed_tools`, in all their forms, as the loop holds the model to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.runs.plan import Choice
from tests.requirement import requirement

NOBODY: frozenset[str] = frozenset()
NAMES = st.sampled_from(["a", "b", "c"])


@requirement("TOOL-choice-auto", "TOOL-deliver-filter")
@pytest.mark.parametrize(
    ("choice", "called", "for_model", "honoured"),
    [
        (Choice(), NOBODY, "auto", True),
        (Choice(mode="none"), NOBODY, "none", True),
        (Choice(mode="required"), NOBODY, "required", False),
        (Choice(mode="required"), frozenset({"a"}), "auto", True),
        (Choice(forced=frozenset({"a"})), NOBODY, "name:a", False),
        (Choice(forced=frozenset({"a"})), frozenset({"b"}), "name:a", False),
        (Choice(forced=frozenset({"a"})), frozenset({"a"}), "auto", True),
        (Choice(forced=frozenset({"a", "b"})), NOBODY, "required", False),
        (Choice(mode="required", allowed=frozenset({"a"})), NOBODY, "required", False),
        (Choice(mode="none", allowed=frozenset({"a"})), NOBODY, "none", True),
    ],
)
def test_what_the_model_is_told_and_when_it_has_done_enough(
    *, choice: Choice, called: frozenset[str], for_model: str, honoured: bool
) -> None:
    assert choice.for_model(called) == for_model
    assert choice.is_honoured(called) is honoured


@requirement("TOOL-filter-allowed-subset")
@given(allowed=st.frozensets(NAMES), tool=NAMES, known=st.booleans())
def test_nothing_outside_the_allowed_tools_is_called(*, allowed: frozenset[str], tool: str, known: bool) -> None:
    refusal = Choice(allowed=allowed).refusal(tool, known=known, called=NOBODY)
    assert (refusal is None) is (known and tool in allowed)


@requirement("TOOL-choice-none")
@given(NAMES, st.frozensets(NAMES))
def test_with_none_nothing_is_called(tool: str, called: frozenset[str]) -> None:
    assert Choice(mode="none").refusal(tool, known=True, called=called) is not None


@given(st.frozensets(NAMES, min_size=1), NAMES, st.frozensets(NAMES))
def test_until_a_forced_tool_was_called_no_other_is(forced: frozenset[str], tool: str, called: frozenset[str]) -> None:
    refusal = Choice(forced=forced).refusal(tool, known=True, called=called)
    assert (refusal is None) is (tool in forced or bool(forced & called))


@requirement("TOOL-filter-callable-and-visible", "TOOL-filter-all-tools-kept", "TOOL-filter-empty-allows-all")
@given(st.one_of(st.none(), st.frozensets(NAMES)))
def test_the_filter_gives_what_may_be_called_and_what_may_be_seen(allowed: frozenset[str] | None) -> None:
    callable_, visible = Choice(allowed=allowed).split(["a", "b", "c"])
    assert visible == ["a", "b", "c"]
    assert callable_ == [name for name in visible if allowed is None or name in allowed]
