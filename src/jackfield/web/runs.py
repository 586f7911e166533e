"""Runs: what made calls. An agent's cycle with its journal, a response, or the calls that went under one run id.

Above: `routes_agents.py`. Below: the store. A key sees its own runs, an agent's key that agent's cycles; of a bare run,
the calls that it may see (`calls/rights.py`). Another's is as if it did not exist.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jackfield.calls.rights import may_see
from jackfield.errors import RunNotFound
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.store import CallFilter
from jackfield.store.runs import ResponseRun
from jackfield.store.scripts import RUN_TOPIC
from jackfield.web.answers import Answer, json_reply
from jackfield.web.responses.wire import encode_resource
from jackfield.web.run_records import (
    OneRun,
    RunEvent,
    RunList,
    WholeRun,
    begun_events,
    ended_event,
    run_record,
    whole_calls,
    whole_cycle,
    whole_response,
)
from jackfield.web.space_rights import agents_of
from jackfield.web.sse import Comment, EventStream, Message
from jackfield.web.visit import Name, Visit

PING_EVERY = 30.0
LOOK_AGAIN = 5.0
"""Seconds after which a stream looks at its run though nobody woke it."""
MOST_CALLS = 500
_FAILED = frozenset({"failed", "cancelled", "incomplete"})
_OVER = _FAILED | {"completed"}
