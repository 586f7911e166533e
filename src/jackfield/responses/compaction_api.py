"""`POST /v1/responses/compact`: a long conversation summed up by the model itself, on the road of every response.

Above: `routes.py`. Below: the desk, and `compaction.py` for the item that comes of it.
"""

import time
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jackfield.errors import Unavailable
from jackfield.http.bodies import read_object
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.model.ids import new_id
from jackfield.model.items import ID_PREFIX, InputText, Item, Message, Usage, text_of
from jackfield.responses.api import until_ended
from jackfield.responses.compaction import sealed
from jackfield.responses.request import read_request
from jackfield.responses.resource import Resource

ASK = (
    "Sum up this conversation for a colleague who goes on with it and cannot read it: what was asked, what was found "
    "out and decided, names, numbers and open ends. Write only the summary."
)


class CompactBody(Struct, frozen=True, kw_only=True):
    """The conversation to sum up: items, or a response that ends it, or both."""

    model: str
    input: str | list[Any] | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    prompt_cache_key: str | None = None


class Compacted(Struct, frozen=True, kw_only=True):
    """Send its output as the first of the next `input`, instead of the conversation."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: tuple[Item, ...]
    usage: Usage


async def compact_response(visit: Request) -> Response:
    """Sum a conversation up."""
    body = await read_object(visit)
    wanted = {key: body[key] for key in CompactBody.__struct_fields__ if key in body}
    request = read_request({**wanted, "store": False})
    question = Message(id=new_id(ID_PREFIX[Message]), role="user", content=(InputText(text=ASK),))
    request = msgspec.structs.replace(request, input=(*request.input, question))
    making = await visit.reception.responses.begin(request, principal=visit.principal)
    resource = await until_ended(making, visit)
    compacted = Compacted(
        id=new_id("resp"),
        created_at=int(time.time()),
        output=(sealed(_summary(resource)),),
        usage=resource.usage or Usage(),
    )
    return json_response(compacted)


def _summary(resource: Resource) -> str:
    said = "\n".join(text_of(item) for item in resource.output if isinstance(item, Message))
    if resource.status == "completed" and said:
        return said
    why = resource.error.message if resource.error is not None else "The model did not sum it up."
    raise Unavailable(f"The conversation was not compacted. {why} Try again, or with another model.")
