"""What a client is told when a value has the wrong form."""

from typing import Literal

import msgspec
import pytest

from jackfield.agents.records import AgentBody
from jackfield.errors import BadRequest
from jackfield.model.tool import CallKind
from jackfield.protocol.json_bodies import bad_value, decoded


class Filter(msgspec.Struct):
    kind: CallKind | None = None
    era: Literal["auto", "handshake"] = "auto"


def refusal_of(raw: bytes) -> BadRequest:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(raw, type=AgentBody)
    return bad_value(caught.value, what="The body", into=AgentBody)


def test_a_pattern_is_told_in_the_words_of_its_description() -> None:
    refusal = refusal_of(b'{"id": "x y"}')
    assert refusal.param == "id"
    assert refusal.message.startswith(
        "'id' in the body is invalid: it does not match the expected form: Letters, digits"
    )
    assert "regex" not in refusal.message


def test_a_wrong_type_is_told_as_that() -> None:
    assert refusal_of(b'{"id": 5}').message == "'id' in the body is invalid: expected `str | null`, got `int`."


def test_an_unknown_key_is_told_with_the_nearest() -> None:
    assert refusal_of(b'{"tols": 1}').message == "The body has an unknown key 'tols'. Did you mean 'tools'?"


def test_a_wrong_choice_is_told_with_those_there_are() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"kind": "file", "era": "auto"}', type=Filter)
    refusal = bad_value(caught.value, what="The query string", into=Filter)
    assert refusal.message == (
        "'kind' in the query string is invalid: invalid enum value 'file'. Use tool, resource, prompt."
    )
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"era": "new"}', type=Filter)
    assert bad_value(caught.value, what="The body", into=Filter).message.endswith("'new'. Use auto, handshake.")


class _Counted(msgspec.Struct):
    number: int


def test_a_whole_number_may_be_written_as_a_float() -> None:
    decode = msgspec.json.Decoder(_Counted).decode
    assert decoded(b'{"number": 2725.0}', decode, into=_Counted).number == 2725
    with pytest.raises(BadRequest, match="expected `int`"):
        decoded(b'{"number": 2725.5}', decode, into=_Counted)
