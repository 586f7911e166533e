"""What a worker says becomes messages, and what is no message is told apart."""

import pytest

from jackfield.model.call import Failed
from jackfield.workers.channel import InvalidMessage, decode_message

DEEP = b"[" * 100_000 + b"]" * 100_000  # Python 3.13 decodes 5,000


@pytest.mark.parametrize("call_id", ["call_1", 7])
def test_a_result_that_is_nested_too_deeply_fails_its_own_call(call_id: str | int) -> None:
    written = f'"{call_id}"' if isinstance(call_id, str) else str(call_id)
    message = decode_message(b'{"id":' + written.encode() + b',"result":' + DEEP + b',"error":null}\n')
    assert message.id == call_id
    outcome = message.outcome()
    assert isinstance(outcome, Failed)
    assert (outcome.code, "nested too deeply" in outcome.message) == ("bad_result", True)


@pytest.mark.parametrize(
    "line",
    [
        b"no message",
        b"[1]",
        b'{"progress": "half"}',
        b'{"id": "\xff"}',
        b'{"id":1,"result":"\xe9"}',
        DEEP,
        b'{"id":1,"call":1,"kwargs":' + DEEP,
    ],
)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidMessage):
        decode_message(line)
