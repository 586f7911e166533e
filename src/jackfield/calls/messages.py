"""What callers and agents are told when a call does not end by itself. The words are the contract's and the seed's."""

import msgspec
from msgspec import Raw

from jackfield.model.call import Call, CallStatus, Failed
from jackfield.protocol.schemas import Fault


def timed_out(call_id: str, timeout_ms: int) -> Failed:
    message = f"Tool timed out after {timeout_ms}ms"
    return Failed("timeout", message, _told(message, call_id))


def interrupted(call_id: str) -> Failed:
    message = (
        "Interrupted: the gateway stopped while this tool was running. It may or may not have taken effect; "
        "check before you call it again."
    )
    return Failed("interrupted", message, _told(message, call_id))


def not_happened(call: Call) -> Failed:
    """The tool that can say so says that the call took no effect."""
    first = (
        f"Tool timed out after {call.timeout_ms}ms."
        if call.verifying == "timeout"
        else "Interrupted: the gateway stopped while this tool was running."
    )
    message = f"{first} It did not take effect, so it can be called again ('{call.verify}' was asked)."
    told = {"error": message, "toolCallId": call.id, "happened": False}
    return Failed(call.verifying or "interrupted", message, Raw(msgspec.json.encode(told)))


def not_verified(call: Call, why: str) -> Failed:
    """Nobody could say."""
    what = "timed out" if call.verifying == "timeout" else "was interrupted"
    message = (
        f"Interrupted: this tool {what}, and whether it took effect could not be found out with '{call.verify}': {why} "
        "Check before you call it again."
    )
    return Failed("interrupted", message, _told(message, call.id))


def cancelled(call_id: str) -> Failed:
    message = "The call was cancelled before it ended."
    return Failed("cancelled", message, _told(message, call_id))


def question_closed(call_id: str) -> Failed:
    message = "The question is closed: the call that asked it is over, or does not wait for the answer any more."
    return Failed("cancelled", message, _told(message, call_id))


def rejected(reason: str | None) -> Failed:
    told = {"rejected": True, "reason": reason or ""}
    message = f"A person rejected this call: {reason}" if reason else "A person rejected this call."
    return Failed("rejected", message, Raw(msgspec.json.encode(told)))


def changed(tool: str) -> Failed:
    message = f"Tool '{tool}' is gone or has changed since this call was approved, so it was not run. Call it again."
    return Failed("definition_changed", message)


def not_allowed(tool: str) -> Failed:
    message = f"Whoever called '{tool}' may not do so any more, so it was not run."
    return Failed("forbidden", message)


def expired(call_id: str) -> Failed:
    message = "Expired: nobody answered this call in time."
    return Failed("expired", message, _told(message, call_id))


def login_refused(source: str, times: int) -> Failed:
    message = (
        f"Source '{source}' asked for a login again after {times} logins, so the call was not run. "
        "Check what the login allows, then call again."
    )
    return Failed("login_needed", message)


def submitted_error(message: str) -> Failed:
    return Failed("tool_error", message, Raw(msgspec.json.encode({"error": message})))


def broken_tool(tool: str) -> Failed:
    return Failed("tool_error", f"Tool '{tool}' failed inside the gateway. The gateway's log has the details.")


def bad_result(tool: str, faults: list[Fault]) -> Failed:
    places = "; ".join(f"{fault['path'] or 'result'}: {fault['message']}" for fault in faults[:5])
    return Failed("bad_result", f"Tool '{tool}' returned a result that does not match its output schema: {places}")


def waiting(call: Call, status: CallStatus, *, login_url: str | None = None) -> Raw:
    """What an agent sees in place of a result that somebody else still has to give."""
    link = {} if login_url is None else {"login_url": login_url}
    if status is CallStatus.PENDING_LOGIN:
        message = _login_message(call, login_url)
    else:
        what = "approval. The result" if status is CallStatus.PENDING_APPROVAL else "result. It"
        message = f"Waiting for {what} will arrive in your inbox when ready."
    told = {"status": status.value, "pendingToolCallId": call.id, "message": message, **link}
    return Raw(msgspec.json.encode(told))


def _login_message(call: Call, login_url: str | None) -> str:
    source = call.source if call.login is None else call.login.source
    then = "The result will arrive in your inbox when ready." if call.agent else "The call then runs by itself."
    if login_url is not None:
        return f"A login at '{source}' is needed first. Open {login_url} and log in. {then}"
    whose = None if call.login is None else call.login.principal
    who = "an administrator" if whose is None or whose.startswith("agent:") else f"'{whose}'"
    return f"Waiting for {who} to log in at '{source}'. {then}"


def _told(message: str, call_id: str) -> Raw:
    return Raw(msgspec.json.encode({"error": message, "toolCallId": call_id}))
