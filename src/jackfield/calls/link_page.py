"""The page behind an approval link: who asks for what, all of it, and a form to decide. Works without JavaScript.

Above: `answers_api.py`. Below: `identity/pages.py`. Opening it decides nothing, so that programs that look at links in
messages cannot.
"""

from itertools import chain

import msgspec
from msgspec import Raw

from jackfield.http.request import Request
from jackfield.http.response import Response
from jackfield.identity.pages import Html, element, joined, page
from jackfield.model.call import Call, CallStatus, Decision
from jackfield.model.text import iso_time

FORM_MEDIA = "application/x-www-form-urlencoded"
LONGEST_REASON = 1_000
_ENDED = {
    CallStatus.EXPIRED: "Nobody decided in time, so it has expired and will not run.",
    CallStatus.CANCELLED: "It was cancelled and will not run.",
}
_DECIDED = {Decision.APPROVED: "It was approved", Decision.REJECTED: "It was rejected"}


def wants_page(request: Request) -> bool:
    """Whether a browser asks, and not a program."""
    return "text/html" in (request.header(b"accept") or "")


def is_form(request: Request) -> bool:
    return (request.header(b"content-type") or "").partition(";")[0].strip().lower() == FORM_MEDIA


def approval_page(call: Call) -> Response:
    """What is asked, and the form, or what has become of it."""
    if call.status is not CallStatus.PENDING_APPROVAL:
        return page("This link has been used", element("p", _became(call), role="status"), _facts(call))
    form = element(
        "form",
        element("label", "Reason, if you reject it (the caller is told)", for_="reason"),
        element("input", type="text", id="reason", name="reason", maxlength=str(LONGEST_REASON), autocomplete="off"),
        element("button", "Approve and run it", type="submit", name="decision", value="approve", class_="primary"),
        element("button", "Reject it", type="submit", name="decision", value="reject"),
        method="post",
    )
    return page(
        "Approve this call?",
        _facts(call),
        element("h2", "What will run, in full"),
        element("p", element("code", visible_text(call.tool)), " with these arguments:"),
        element("pre", shown_json(call.arguments), tabindex="0"),
        form,
        element("p", "This link works once. Whoever has it can decide.", class_="quiet"),
    )


def decided_page(call: Call) -> Response:
    """What was decided, just now."""
    if call.status is CallStatus.REJECTED:
        return page("Rejected", element("p", "The call will not run. The caller is told.", role="status"), _facts(call))
    later = "It runs now." if call.status is not CallStatus.PENDING else "It waits for whoever answers it."
    return page("Approved", element("p", later, role="status"), _facts(call))


def shown_json(text: Raw) -> Html:
    """All of it, indented. Characters that cannot be seen, or change the order of others, are shown by their code."""
    lines = msgspec.json.format(msgspec.json.encode(msgspec.json.decode(text)), indent=2).decode().split("\n")
    return joined(chain.from_iterable((visible_text(line), Html("\n")) for line in lines))


def visible_text(text: str) -> str:
    """The text, with what cannot be seen by its code."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _code(c) for c in text)


def _code(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _facts(call: Call) -> Html:
    asked_by = f"agent {call.agent}" if call.agent else call.principal
    facts = (
        ("Tool", f"{call.tool} (source {call.source})"),
        ("Asked by", asked_by),
        ("In the name of", call.principal),
        *([("Why", call.asked_because)] if call.asked_because else []),
        ("Waits since", _time(call.created_at)),
        ("Waits until", "for ever" if call.expires_at is None else _time(call.expires_at)),
        ("Call", call.id),
    )
    shown = [(element("dt", label), element("dd", visible_text(value))) for label, value in facts]
    return element("dl", *chain.from_iterable(shown))


def _became(call: Call) -> str:
    if call.status in _ENDED:
        return _ENDED[call.status]
    if call.decision in _DECIDED:
        who = f" by {visible_text(call.decided_by)}" if call.decided_by else ""
        when = f", {_time(call.decided_at)}" if call.decided_at is not None else ""
        return f"{_DECIDED[call.decision]}{who}{when}."
    return f"It does not wait for an approval: it is {call.status.value}."


def _time(milliseconds: int) -> str:
    """`2026-01-15 10:30:00 UTC`"""
    return f"{iso_time(milliseconds)[:19].replace('T', ' ')} UTC"
