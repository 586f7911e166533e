"""What every store does when a message is edited, or told again."""

from functools import partial

import msgspec
import pytest

from jackfield.errors import Conflict, Forbidden
from jackfield.model.space import Sender, message_fields
from jackfield.spaces import edits
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store
from tests.requirement import requirement
from tests.store.cycles import data_of, events_of
from tests.store.spaces import ADA, a_space, said, told


@requirement("CONSOLE-message-edit")
async def test_an_edited_message_keeps_its_number_and_what_it_said(store: Store) -> None:
    await a_space(store, agents=("ada", "bob"))
    first = await said(store, "Tea")
    second = await said(store, "And milk")
    edit = partial(edits.edit_message, "lobby", first.id, author=first.entity_id)
    edited = await store.write(partial(edit, content="Coffee"))
    assert edited is not None
    assert (edited.id, edited.seq, edited.content) == (first.id, first.seq, "Coffee")
    assert edited.edited_at is not None
    assert await store.read(partial(space_tx.messages, "lobby")) == [edited, second]
    kind, data = (await told(store))[-1]
    event = msgspec.json.decode(msgspec.json.encode(message_fields(edited)))
    assert (kind, data) == ("space.message", {"message": event})
    assert await store.read(partial(space_tx.last_seq, "lobby")) == second.seq + 1
    assert [data_of(each)["content"] for each in await events_of(store, "bob")] == ["Coffee", "And milk"], (
        "not read yet"
    )
    again = await store.write(partial(edit, content="Coffee"))
    assert again == edited, "nothing has changed, and nobody is told"
    assert await store.read(partial(space_tx.last_seq, "lobby")) == second.seq + 1
    for number in range(edits.MOST_EARLIER + 5):
        await store.write(partial(edit, content=f"Version {number}"))
    earlier = [each["content"] for each in await store.read(partial(edits.earlier_texts, first.id))]
    assert len(earlier) == edits.MOST_EARLIER
    assert (earlier[0], earlier[-1]) == ("Tea", f"Version {edits.MOST_EARLIER + 3}")


@requirement("CONSOLE-message-edit")
async def test_only_its_author_edits_a_message(store: Store) -> None:
    await a_space(store, agents=("ada",))
    message = await said(store, "Tea")
    with pytest.raises(Forbidden, match="said this, and nobody else edits it"):
        await store.write(partial(edits.edit_message, "lobby", message.id, author="mallory", content="x"))
    shown = await said(store, "{}", sender=Sender("husam", "Husam", "person"), metadata={"type": "tool_call"})
    with pytest.raises(Conflict, match="cannot be edited"):
        await store.write(partial(edits.edit_message, "lobby", shown.id, author="husam", content="x"))
    before = await store.read(partial(space_tx.last_seq, "lobby"))
    assert await store.write(partial(edits.edit_message, "lobby", "nothing", author="husam", content="x")) is None
    assert await store.write(partial(edits.edit_message, "nowhere", message.id, author="husam", content="x")) is None
    assert await store.read(partial(space_tx.last_seq, "lobby")) == before
    assert await store.read(partial(edits.earlier_texts, message.id)) == []


async def test_a_message_that_is_told_again_is_in_the_inboxes_once_more(store: Store) -> None:
    await a_space(store, agents=("ada", "bob"))
    message = await said(store, "Tea")
    assert await store.write(partial(edits.tell_again, message)) == ["ada", "bob"]
    once, twice = [data_of(each) for each in await events_of(store, "bob")]
    assert once == twice
    by_ada = await said(store, "Hello", sender=ADA)
    assert await store.write(partial(edits.tell_again, by_ada)) == ["bob"]
