"""A conversation made short: one item that stands for all of it, and the message that it is to a model. Pure.

The summary travels to the client and back in a form that is not meant to be read. It is not secret: it is made of what
the client said and was told. Above: `compacting.py`, which makes such items; `making.py`, which opens them. Below: the
items.
"""

import base64
import binascii
from collections.abc import Iterable

from jackfield.errors import BadRequest
from jackfield.model.ids import new_id
from jackfield.model.items import ID_PREFIX, Compaction, InputText, Item, Message

MARK = "jackfield-1:"
SAID_BEFORE = "What was said before, summed up:\n"


def sealed(summary: str) -> Compaction:
    """A summary as an item."""
    content = base64.urlsafe_b64encode(f"{MARK}{summary}".encode()).decode()
    return Compaction(id=new_id(ID_PREFIX[Compaction]), encrypted_content=content)


def opened(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items with each summary as a message; raises `BadRequest` for one that is not ours."""
    return tuple(_message(item) if isinstance(item, Compaction) else item for item in items)


def _message(item: Compaction) -> Message:
    try:
        text = base64.b64decode(item.encrypted_content, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    if not text.startswith(MARK):
        raise BadRequest(
            f"The compaction item '{item.id}' was not made here. Send the conversation instead.", param="input"
        )
    return Message(id=item.id, role="developer", content=(InputText(text=SAID_BEFORE + text.removeprefix(MARK)),))
