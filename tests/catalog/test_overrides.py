"""The operator's word over the source's."""

from jackfield.catalog.merge import merge
from jackfield.catalog.overrides import apply_override, assign
from jackfield.model.tool import CostEstimate, Metadata
from jackfield.settings import ToolOverride
from tests.catalog.given import listing, tool

ISSUE = tool(
    "create_issue",
    description="As listed",
    timeout_ms=60_000,
    metadata=Metadata(tags=("code",), idempotent=True, cost_estimate=CostEstimate.LOW),
)


def test_only_what_the_operator_gave_is_changed() -> None:
    assert apply_override(ISSUE, ToolOverride()) == ISSUE
    changed = apply_override(
        ISSUE,
        ToolOverride(
            description="As told", category="code", visible=True, is_async=True, timeout=20_000, expires_in=1_000
        ),
    )
    assert changed == tool(
        "create_issue",
        description="As told",
        category="code",
        visible=True,
        is_async=True,
        timeout_ms=20_000,
        expires_in_ms=1_000,
        metadata=ISSUE.metadata,
    )


def test_false_and_empty_are_values_too() -> None:
    loud = tool("x", visible=True, is_async=True, description="long")
    quiet = apply_override(loud, ToolOverride(visible=False, is_async=False, description=""))
    assert (quiet.visible, quiet.is_async, quiet.description) == (False, False, "")


def test_metadata_is_laid_over_field_by_field() -> None:
    changed = apply_override(ISSUE, ToolOverride(metadata={"requires_approval": True, "tags": ["a", "b"]}))
    assert changed.metadata == Metadata(
        requires_approval=True, tags=("a", "b"), idempotent=True, cost_estimate=CostEstimate.LOW
    )
    assert changed.timeout_ms == 60_000


def test_null_in_metadata_takes_a_value_away() -> None:
    assert apply_override(ISSUE, ToolOverride(metadata={"cost_estimate": None})).metadata.cost_estimate is None


def test_the_operators_timeout_seconds_is_stronger_than_the_sources_timeout() -> None:
    assert apply_override(ISSUE, ToolOverride(metadata={"timeout_seconds": 5})).deadline_ms == 5_000
    both = apply_override(ISSUE, ToolOverride(timeout=7_000, metadata={"timeout_seconds": 5}))
    assert both.deadline_ms == 7_000


def test_an_override_that_names_no_tool_is_told_with_the_nearest_name() -> None:
    overrides = {"acme": {"create_isue": ToolOverride(visible=True)}}
    [notice] = merge([listing("acme", ISSUE)], overrides, ()).notices
    assert notice.message == (
        "The config has [sources.acme.tools.create_isue], but 'acme' has no tool 'create_isue'. "
        "Did you mean 'create_issue'? Correct the name, or remove the override."
    )


def test_nothing_is_said_about_a_source_that_has_listed_nothing_yet() -> None:
    assert merge([listing("acme")], {"acme": {"x": ToolOverride()}}, ()).notices == ()
    assert merge([], {"acme": {"x": ToolOverride()}}, ()).notices == ()


def test_the_legal_spelling_means_a_tool_unless_one_is_really_called_so() -> None:
    over = ToolOverride(visible=True)
    assert assign("acme", ["create-issue"], {"create_issue": over}) == ({"create-issue": over}, [])
    assert assign("acme", ["create-issue", "create_issue"], {"create_issue": over}) == ({"create_issue": over}, [])
    other = ToolOverride(visible=False)
    both, _ = assign("acme", ["a-b", "a.b"], {"a_b": over, "a-b": other})
    assert both == {"a-b": other, "a.b": over}
