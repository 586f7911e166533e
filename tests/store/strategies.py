"""What Hypothesis may choose from: new calls, moves with what they take, and moves of a kind.

Above: `test_moves_machine.py`. Below: `protocol.py`, whose moves these are.
"""

from typing import Any

from hypothesis import strategies as st

STEPS = 40
MOST_OPEN = 5
"""Calls that are not over at one time."""

AGENTS = (None, "ada", "bob")
GATEWAYS = ("gw_a", "gw_b", "gw_c")
TOOLS = ("weather", "confirm")
CLIENTS = ("server_1", "server_2")
SPANS = (0, 10, 1_000, 20_000)
OUTCOMES = ("done:null", "done:false", "done:0", 'done:""', "done:[]", 'done:{"a": 1}', "failed:tool_error")
ARGUMENTS = (None, '{"text":"edited"}')

BEGINNINGS: dict[str, dict[str, Any]] = {
    "running": {"status": "running", "attempt": 1},
    "waiting": {"status": "waiting"},
    "pending": {"status": "pending", "delivery": "inbox", "first_reply": "pending"},
    "approval": {"status": "pending_approval", "delivery": "inbox", "first_reply": "pending"},
}
"""T1's branches outside a cycle."""

VIA = st.integers(0, 1)
"""Which gateway does it, where there are two."""
PICK = st.integers(0, 1_000)
NEW_CALL = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(tuple(BEGINNINGS)),
        "agent": st.sampled_from(AGENTS),
        "idempotent": st.booleans(),
        "verify": st.sampled_from((None, "was_it_booked")),
        "waiter": st.sampled_from((None, *GATEWAYS)),
        "owner": st.sampled_from(GATEWAYS),
        "tool": st.sampled_from(TOOLS),
        "timeout": st.sampled_from(SPANS),
        "expires_in": st.sampled_from(SPANS),
        "via": VIA,
    }
)

OFF_BY = st.sampled_from((0, 0, 0, -1, 1))
"""How far the attempt that somebody means is from the one that the row has."""
VALUES = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(OUTCOMES),
        "attempt": OFF_BY,
        "seen": OFF_BY,
        "limit": st.sampled_from((0, 500, 200_000)),
        "offer": st.sampled_from((None, None, 0, 0, -1, 1)),
        "begins": st.booleans(),
        "arguments": st.sampled_from(ARGUMENTS),
        "owner": st.sampled_from(GATEWAYS),
        "why": st.sampled_from(("interrupted", "timeout")),
        "client": st.sampled_from(CLIENTS),
        "holder": st.sampled_from(CLIENTS),
        "gateway": st.sampled_from(GATEWAYS),
    }
)
ORDINARY: dict[str, Any] = {
    "outcome": "done:1",
    "attempt": 0,
    "seen": 0,
    "limit": 0,
    "offer": None,
    "begins": False,
    "arguments": None,
    "owner": "gw_a",
    "why": "interrupted",
    "client": "server_1",
    "holder": "server_1",
    "gateway": "gw_a",
}
"""Values with which a move goes through wherever it can at all."""
TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("reject", "cancel", "expire", "overdue", "flip", "abandon", "mark_sent", "give"), ()),
    "submit": ("outcome",),
    "executed": ("outcome", "attempt"),
    "report": ("limit", "holder", "offer", "begins"),
    "approve_to_run": ("arguments",),
    "approve_to_wait": ("arguments",),
    "claim": ("owner",),
    "reclaim": ("owner", "seen"),
    "verify": ("owner", "seen", "why"),
    "verify_late": ("owner", "seen", "why"),
    "park": ("owner", "attempt"),
    "park_operation": ("attempt",),
    "park_for_login": ("attempt",),
    "login_done": (),
    "resume": ("owner", "seen"),
    "interrupt": ("owner",),
    "offer": ("client", "gateway"),
}
"""Which of the values each move is given."""
GROUPS = {
    "answer": ("submit", "executed", "reject", "cancel"),
    "time_out": ("flip", "expire", "overdue"),
    "wait": ("abandon", "report"),
    "approve": ("approve_to_run", "approve_to_wait", "claim"),
    "take_over": ("reclaim", "executed"),
    "verify": ("verify", "verify_late", "overdue", "reclaim", "executed"),
    "park_and_resume": ("park", "park_operation", "resume", "interrupt", "executed"),
    "log_in": ("park_for_login", "login_done", "claim", "reject", "executed"),
    "deliver": ("mark_sent", "give"),
    "hand_out": ("offer", "report"),
}
"""Moves of a kind. Each group is a rule of its own, so that Hypothesis can leave some out and go deep with others."""
