import msgspec
import pytest

from jackfield import errors
from jackfield.sdk import CallAnswer, CallError, CallStatusName
from jackfield.sdk.errors import BY_CODE, CallPending, GatewayFault, ToolFailed, outcome_of, refusal
from tests.requirement import requirement

URL = "http://127.0.0.1:8420"


def body(code: str, message: str = "No.", **more: object) -> bytes:
    return msgspec.json.encode({"error": {"type": "t", "code": code, "message": message, "param": None, **more}})


def every_refusal() -> list[type[errors.Refused]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.Refused) and kind is not errors.Refused
    ]


@requirement("CON-sdk-client")
@pytest.mark.parametrize("kind", every_refusal(), ids=lambda kind: kind.__name__)
def test_every_class_of_the_tree_comes_back_by_its_code_with_its_sentence(kind: type[errors.Refused]) -> None:
    status = next(errors.STATUS[parent] for parent in kind.__mro__ if parent in errors.STATUS)
    error = refusal(status, body(kind.code, "What happened.", param="here", details=[]), url=URL)
    assert type(error) is kind
    assert (error.code, error.message) == (kind.code, "What happened.")


def test_no_two_classes_share_a_code() -> None:
    assert len(BY_CODE) == len(every_refusal()) + 1


def test_the_faults_of_arguments_come_along() -> None:
    details = [{"path": "/a", "message": "is missing"}]
    error = refusal(400, body("invalid_arguments", details=details), url=URL)
    assert isinstance(error, errors.InvalidArguments)
    assert error.details == details


def test_the_parameter_at_fault_comes_along() -> None:
    error = refusal(400, body("invalid_request", param="limit"), url=URL)
    assert isinstance(error, errors.BadRequest)
    assert error.param == "limit"


@pytest.mark.parametrize(("header", "wait"), [("7", 7.0), ("0.5", 0.5), (None, 1.0), ("Fri, 31 Dec", 1.0), ("-3", 0.0)])
def test_a_rate_limit_says_how_long_to_wait(header: str | None, wait: float) -> None:
    error = refusal(429, body("rate_limited"), url=URL, retry_after=header)
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after == wait


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, errors.Forbidden), (404, errors.NotFound), (409, errors.Conflict), (503, errors.Unavailable)],
)
def test_an_unknown_code_is_the_nearest_class_by_status_and_keeps_its_code(
    status: int, kind: type[errors.Refused]
) -> None:
    error = refusal(status, body("from_the_future"), url=URL)
    assert type(error) is kind
    assert error.code == "from_the_future"
    assert kind.code != "from_the_future"


def test_an_unknown_code_with_an_unknown_client_status_is_a_plain_refusal() -> None:
    error = refusal(405, body("method_not_allowed"), url=URL)
    assert type(error) is errors.Refused
    assert error.code == "method_not_allowed"


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (502, b"<html>Bad Gateway</html>"),
        (404, b""),
        (400, b'{"detail": "another framework"}'),
        (400, b'{"error": "a string"}'),
        (500, b"\xff\xfe"),
    ],
)
def test_what_no_gateway_says_is_a_fault_that_names_the_url_and_status(status: int, content: bytes) -> None:
    error = refusal(status, content, url=URL)
    assert isinstance(error, GatewayFault)
    assert URL in error.message
    assert str(status) in error.message


def test_a_crash_of_the_gateway_is_a_fault_with_its_sentence() -> None:
    error = refusal(500, body("internal_error", "Look under reference abc."), url=URL)
    assert isinstance(error, GatewayFault)
    assert "Look under reference abc." in error.message


@pytest.mark.parametrize("result", [None, False, 0, "", [], {"a": 1}])
def test_the_result_of_a_call_that_is_done_is_plain_whatever_it_is(result: object) -> None:
    answer = CallAnswer(call_id="c", status="completed", success=True, result=result)
    assert outcome_of("t", answer) == result


@requirement("CON-sdk-client")
def test_a_failed_tool_raises_with_its_code_its_result_and_its_call() -> None:
    answer = CallAnswer(
        call_id="call_1", status="failed", result={"half": 1}, error=CallError(code="timeout", message="Too slow.")
    )
    with pytest.raises(ToolFailed, match=r"^Too slow\.$") as raised:
        outcome_of("t", answer)
    assert (raised.value.code, raised.value.call_id, raised.value.result) == ("timeout", "call_1", {"half": 1})
    assert ToolFailed.code == "tool_failed"


def test_a_call_that_ended_without_an_error_of_its_own_fails_with_its_status() -> None:
    with pytest.raises(ToolFailed) as raised:
        outcome_of("t", CallAnswer(call_id="c", status="cancelled"))
    assert (raised.value.code, raised.value.status) == ("cancelled", "cancelled")


@pytest.mark.parametrize("status", ["running", "waiting", "pending", "pending_approval"])
def test_a_call_without_an_outcome_raises_pending_with_its_id_and_status(status: CallStatusName) -> None:
    with pytest.raises(CallPending, match="call_1") as raised:
        outcome_of("t", CallAnswer(call_id="call_1", status=status, result={"status": status}))
    assert (raised.value.call_id, raised.value.status) == ("call_1", status)
