"""What the redactor of calls takes secrets out of, besides outcomes."""

from jackfield.calls.redaction import Redactor
from jackfield.sources.base import ElicitRequest
from tests.requirement import requirement


@requirement("SAFE-redaction-every-form")
def test_a_question_tells_no_secret_in_its_words_nor_in_those_about_its_fields() -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string", "description": "Not s3cr3t, another."}}}
    asked = Redactor(lambda: {"s3cr3t"}).question(ElicitRequest(message="Is it s3cr3t?", schema=schema))
    assert asked.message == "Is it [redacted]?"
    assert asked.schema == {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "Not [redacted], another."}},
    }
    unasked = ElicitRequest(message="Open it.", url="https://x.example/s3cr3t")
    assert Redactor(lambda: {"s3cr3t"}).question(unasked) == unasked
