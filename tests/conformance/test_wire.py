"""What counts as a difference on the wire."""

from typing import Any

from conformance.wire.comparison import differences, schema_names
from conformance.wire.snapshot import events_in, normal, shape


def _snapshot(body: Any, *, schema: str = "Answer") -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    schemas = {
        schema: {"title": schema, "type": "object", "properties": {"inner": reference, "n": {"type": "integer"}}}
    }
    document = {"paths": {"/x": {"get": {"answer": reference}}}, "components": {"schemas": schemas}}
    return {"openapi": document, "requests": {"one": {"status": 200, "body": body}}}


def test_another_value_field_or_type_is_a_difference() -> None:
    for other in ({"n": 2}, {"n": 1, "m": 1}, {}, {"n": True}, {"n": 1.0}, [1]):
        hard, texts = differences(_snapshot({"n": 1}), _snapshot(other))
        assert len(hard) == 1
        assert not texts


def test_a_sentence_may_be_reworded_unless_agents_were_promised_it() -> None:
    old, new = _snapshot({"message": "It is gone."}), _snapshot({"message": "It was removed."})
    assert [len(found) for found in differences(old, new)] == [0, 1]
    old, new = _snapshot({"error": "Tool timed out after 5ms"}), _snapshot({"error": "Too late"})
    assert [len(found) for found in differences(old, new)] == [1, 0]


def test_schemas_are_compared_by_what_they_say_not_by_their_name() -> None:
    old, new = _snapshot(1, schema="Answer"), _snapshot(1, schema="Response")
    assert differences(old, new) == ([], [])
    assert schema_names(old, new) == ({"Answer"}, {"Response"})


def test_what_differs_from_run_to_run_is_left_out() -> None:
    value = {"id": "mcp_call_01a1e435d6999a23457081e358ca", "at": "2026-01-15T10:30:00.000Z", "ms": 1763287302000}
    assert normal(value) == {"id": "mcp_call_<id>", "at": "<time>", "ms": "<moment>"}
    assert normal({"execution_time_ms": 1.5, "url": "http://127.0.0.1:1234/api/v1/callbacks/ab.cd"}) == {
        "execution_time_ms": "<execution_time_ms>",
        "url": "http://127.0.0.1:<port>/api/v1/callbacks/<token>",
    }
    assert shape({"calls": [{"a": 1}, {"b": None}], "n": 1}) == {"calls": ["a", "b"], "n": "int"}


def test_events_are_read_with_their_names_and_whether_they_have_an_id() -> None:
    text = 'event: a\ndata: {"x": 1}\n\n: ping\n\nid: 5\ndata: plain\n\n'
    assert events_in(text) == [("a", {"x": 1}), ("message (with id)", "plain")]
