"""What every store holds of spaces: members, messages, presence, and one line of numbered events in each."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.agents.cycle_transactions import abandon, commit, open_cycle
from jackfield.errors import BadRequest, Conflict
from jackfield.gateway.retention import MESSAGES_KEPT, prune
from jackfield.model.space import LiveStream, Presence, Sender, message_fields
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store
from tests.requirement import requirement
from tests.store.cycles import RECORD, data_of, events_of, run
from tests.store.spaces import ADA, HUSAM, a_space, kinds, metadata_of, said, told

BOB = Sender("bob", "Bob", "agent")


async def test_a_space_is_made_found_changed_and_forgotten(store: Store) -> None:
    made = await store.write(
        partial(space_tx.create_space, "lobby", name="Lobby", description="All", metadata={"a": 1})
    )
    assert (made.id, made.name, made.description, made.metadata, made.last_seq) == (
        "lobby",
        "Lobby",
        "All",
        Raw(b'{"a":1}'),
        0,
    )
    assert await store.read(partial(space_tx.get_space, "lobby")) == made
    own = await store.write(partial(space_tx.create_space, name="Own"))
    assert own.id.startswith("space_")
    assert await store.read(space_tx.list_spaces) == [made, own]
    changed = await store.write(partial(space_tx.update_space, "lobby", name="Hall"))
    assert changed is not None
    assert (changed.name, changed.description, changed.metadata) == ("Hall", "All", Raw(b'{"a":1}'))
    assert await told(store) == [("space.updated", {"name": "Hall", "description": "All", "metadata": {"a": 1}})]
    assert await store.write(partial(space_tx.update_space, "nowhere", name="x")) is None
    assert await store.write(partial(space_tx.delete_space, "lobby"))
    assert not await store.write(partial(space_tx.delete_space, "lobby"))
    assert await store.read(partial(space_tx.get_space, "lobby")) is None
    assert await store.read(space_tx.list_spaces) == [own]


async def test_what_was_said_last_in_each_space_is_found_by_its_id(store: Store) -> None:
    for space in ("empty", "lobby"):
        await store.write(partial(space_tx.create_space, space, name=space))
    for words in ("first", "x" * 400):
        await store.write(partial(space_tx.post_message, "lobby", sender=HUSAM, content=words))
    latest = await store.read(partial(space_tx.latest_of_spaces, ["lobby", "empty"]))
    assert (latest["empty"].members, latest["empty"].created_at) == (0, None)
    assert (latest["lobby"].sender_name, latest["lobby"].content, latest["lobby"].tool) == (HUSAM.name, "x" * 300, None)


async def test_an_id_is_given_once_and_what_must_be_there_stays_as_it_is(store: Store) -> None:
    made = await store.write(partial(space_tx.create_space, "lobby", name="Lobby"))
    with pytest.raises(Conflict, match="There is a space 'lobby' already"):
        await store.write(partial(space_tx.create_space, "lobby", name="Other"))
    await store.write(partial(space_tx.ensure_space, "lobby", name="Other"))
    await store.write(partial(space_tx.ensure_space, "hall", name="Hall"))
    assert [space.name for space in await store.read(space_tx.list_spaces)] == ["Hall", "Lobby"]
    assert await store.read(partial(space_tx.get_space, "lobby")) == made


@requirement("CON-spaces-read-kept")
async def test_how_far_somebody_has_read_is_kept_and_never_becomes_less(store: Store) -> None:
    await store.write(partial(space_tx.create_space, "lobby", name="Lobby"))
    assert await store.write(partial(space_tx.mark_read, "nowhere", "husam", seq=None)) is None
    for content in ("one", "two", "three"):
        await store.write(partial(space_tx.post_message, "lobby", sender=HUSAM, content=content))
    one, two, three = await store.read(partial(space_tx.messages, "lobby", limit=3))
    for asked, seen, message in [(two.seq, two.seq, two), (one.seq, two.seq, two), (None, three.seq, three)]:
        read = await store.write(partial(space_tx.mark_read, "lobby", "ada", seq=asked))
        assert read is not None
        assert (read.entity_id, read.last_seq, read.last_message) == ("ada", seen, message.id)
    await store.write(partial(space_tx.mark_read, "lobby", "husam", seq=10**9))
    space = await store.read(partial(space_tx.get_space, "lobby"))
    assert space is not None
    reads = await store.read(partial(space_tx.reads_in, "lobby"))
    assert {who: read.last_seq for who, read in reads.items()} == {"ada": three.seq, "husam": space.last_seq}
    await store.write(partial(space_tx.put_member, "lobby", entity_id="ada", kind="agent", name="Ada"))
    await store.write(partial(space_tx.remove_member, "lobby", "ada"))
    assert list(await store.read(partial(space_tx.reads_in, "lobby"))) == ["husam"]
    await store.write(partial(space_tx.delete_space, "lobby"))
    assert await store.read(partial(space_tx.reads_in, "lobby")) == {}


async def test_members_join_once_are_renamed_and_leave(store: Store) -> None:
    await store.write(partial(space_tx.create_space, "lobby", name="Lobby"))
    await store.write(partial(space_tx.create_space, "hall", name="Hall"))
    assert await store.write(partial(space_tx.put_member, "nowhere", entity_id="ada", kind="agent", name="Ada")) is None
    joined = await store.write(partial(space_tx.put_member, "lobby", entity_id="ada", kind="agent", name="Ada"))
    assert joined is not None
    assert await store.read(partial(space_tx.get_member, "lobby", "ada")) == joined
    again = await store.write(partial(space_tx.put_member, "lobby", entity_id="ada", kind="agent", name="Ada L."))
    assert again == msgspec.structs.replace(joined, name="Ada L.")
    assert await store.read(partial(space_tx.members_of, "lobby")) == [again]
    assert [space.id for space in await store.read(partial(space_tx.list_spaces, member="ada"))] == ["lobby"]
    assert await store.write(partial(space_tx.remove_member, "lobby", "ada"))
    assert not await store.write(partial(space_tx.remove_member, "lobby", "ada"))
    assert not await store.write(partial(space_tx.remove_member, "nowhere", "ada"))
    assert await store.read(partial(space_tx.get_member, "lobby", "ada")) is None
    assert await told(store, besides=()) == [
        ("member.joined", {"entityId": "ada", "kind": "agent", "name": "Ada"}),
        ("member.left", {"entityId": "ada", "kind": "agent", "name": "Ada L."}),
    ]


async def test_a_message_is_kept_told_and_found_in_every_agents_inbox_but_the_senders(store: Store) -> None:
    await a_space(store, agents=("ada", "bob"))
    posted = await store.write(
        partial(
            space_tx.post_message,
            "lobby",
            sender=ADA,
            content="Hello\n{}",
            metadata={"mood": "good"},
            run_id="cycle_1",
            stream_id="call_1",
            hops=2,
        )
    )
    assert posted is not None
    assert (posted.entity_id, posted.sender_name, posted.sender_type, posted.role) == (
        "ada",
        "Ada",
        "agent",
        "assistant",
    )
    assert (posted.content, metadata_of(posted), posted.run_id) == ("Hello\n{}", {"mood": "good"}, "cycle_1")
    assert await store.read(partial(space_tx.messages, "lobby")) == [posted]
    assert await store.read(partial(space_tx.get_message, posted.id)) == posted
    event = msgspec.json.decode(msgspec.json.encode(message_fields(posted)))
    assert await told(store) == [("space.message", {"streamId": "call_1", "message": event})]
    assert posted.seq == await store.read(partial(space_tx.last_seq, "lobby")) == event["seq"]
    [found] = await events_of(store, "bob")
    assert (found.event_id, found.type, found.status) == (posted.id, "space_message", "pending")
    assert data_of(found) == {
        "spaceId": "lobby",
        "spaceName": "Lobby",
        "messageId": posted.id,
        "senderEntityId": "ada",
        "senderName": "Ada",
        "senderType": "agent",
        "content": "Hello\n{}",
        "hops": 2,
    }
    assert await events_of(store, "ada") == []
    assert await events_of(store, "husam") == []


async def test_people_and_the_gateway_speak_in_their_own_roles_and_need_not_wake_agents(store: Store) -> None:
    await a_space(store)
    person = await said(store, "hi")
    system = await said(store, "Stopped.", sender=Sender("jackfield", "Jackfield", "system"), wakes_agents=False)
    assert [(one.sender_type, one.role) for one in (person, system)] == [("person", "user"), ("system", "system")]
    [event] = await events_of(store)
    assert event.event_id == person.id
    assert data_of(event)["senderType"] == "human"
    assert await store.write(partial(space_tx.post_message, "nowhere", sender=HUSAM, content="hi")) is None


async def test_a_message_that_is_sent_again_is_the_first_one(store: Store) -> None:
    await a_space(store)
    first = await said(store, "hi", message_id="m1")
    many = [said(store, "hi, again", message_id="m1") for _ in range(5)]
    assert await asyncio.gather(*many) == [first] * 5
    assert await kinds(store) == ["space.message"]
    assert len(await events_of(store)) == 1
    assert (await said(store, "more")).seq == first.seq + 1


async def test_a_message_id_that_is_anothers_or_could_be_is_refused(store: Store) -> None:
    await a_space(store)
    await a_space(store, "hall")
    await said(store, "hi", message_id="m1")
    before = await told(store), await told(store, "hall")
    for space_id, sender in (("hall", HUSAM), ("lobby", BOB)):
        with pytest.raises(Conflict, match="'m1' is another message's"):
            await said(store, "hi", message_id="m1", space_id=space_id, sender=sender)
    with pytest.raises(BadRequest, match="no colon"):
        await said(store, "hi", message_id="tr:call_1")
    with pytest.raises(BadRequest, match="are made here"):
        await said(store, "hi", message_id="msg_call_1")
    assert (await told(store), await told(store, "hall")) == before


async def test_messages_are_paged_both_ways(store: Store) -> None:
    await a_space(store)
    posted = [await said(store, f"m{n}") for n in range(5)]
    await store.write(partial(space_tx.add_event, "lobby", "space.noted", {}))
    last = await said(store, "m5")
    texts: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["m0", "m1", "m2", "m3", "m4", "m5"]),
        ({"limit": 2}, ["m4", "m5"]),
        ({"limit": 2, "before_seq": last.seq}, ["m3", "m4"]),
        ({"limit": 2, "after_seq": posted[1].seq}, ["m2", "m3"]),
        ({"after_seq": 0, "before_seq": posted[2].seq}, ["m0", "m1"]),
        ({"after_seq": last.seq}, []),
    ]
    for wanted, expected in texts:
        assert [
            message.content for message in await store.read(partial(space_tx.messages, "lobby", **wanted))
        ] == expected, wanted
    assert await store.read(partial(space_tx.messages, "nowhere")) == []


async def test_events_are_numbered_without_gap_in_the_order_they_were_written(store: Store) -> None:
    await a_space(store)
    await a_space(store, "hall")
    sent = [said(store, f"{n}", space_id=space_id) for n in range(30) for space_id in ("lobby", "hall")]
    posted = await asyncio.gather(*sent)
    for space_id in ("lobby", "hall"):
        texts = [data["message"]["content"] for _, data in await told(store, space_id)]
        assert texts == [one.content for one in sorted(posted, key=lambda one: one.seq) if one.space_id == space_id]
    page = await store.read(partial(space_tx.events_after, "lobby", 10, 5))
    assert [event.seq for event in page] == [11, 12, 13, 14, 15]
    assert page[0].space_id == "lobby"
    assert await store.write(partial(space_tx.add_event, "nowhere", "space.noted", {})) is None
    assert await store.read(partial(space_tx.last_seq, "nowhere")) is None


async def test_whoever_writes_into_a_space_wakes_those_who_follow_it_and_the_agents_that_are_told(store: Store) -> None:
    await a_space(store, agents=("ada", "bob"))
    topics = ("space:lobby", "inbox:ada", "inbox:bob")
    heard = {}
    for topic in topics:
        with store.bus.listen(topic) as event:
            await said(store, "hi", sender=ADA)
            heard[topic] = event.is_set()
    assert heard == {"space:lobby": True, "inbox:ada": False, "inbox:bob": True}


async def test_an_agent_that_wakes_for_messages_is_active_in_their_spaces_until_its_cycle_is_over(store: Store) -> None:
    for space_id in ("lobby", "hall", "left", "gone"):
        await a_space(store, space_id)
        await said(store, "hi", space_id=space_id)
    await said(store, "again")
    await store.write(partial(space_tx.remove_member, "left", "ada"))
    await store.write(partial(space_tx.delete_space, "gone"))
    opened = await store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
    assert opened is not None
    there = {"agentEntityId": "ada", "agentName": "Ada", "runId": "cycle_1"}
    assert (await told(store))[-1] == ("agent.active", there)
    for space_id, present in (("lobby", [Presence("ada", "Ada", "cycle_1")]), ("left", []), ("gone", [])):
        assert await store.read(partial(space_tx.presence_in, space_id)) == present
    assert (await told(store, "hall"))[-1] == ("agent.active", there)
    assert "agent.active" not in await kinds(store, "left")
    assert await store.write(partial(commit, opened.cycle, context="c", record=RECORD)) is not None
    for space_id in ("lobby", "hall"):
        assert (await told(store, space_id))[-1] == ("agent.inactive", there)
        assert await store.read(partial(space_tx.presence_in, space_id)) == []


async def test_an_agent_that_gives_up_or_loses_its_place_is_active_no_longer(store: Store) -> None:
    await a_space(store)
    await a_space(store, "hall")
    await said(store, "hi")
    await said(store, "hi", space_id="hall")
    opened = await store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
    assert opened is not None
    assert await store.write(partial(space_tx.remove_member, "hall", "ada"))
    assert (await kinds(store, "hall"))[-2:] == ["member.left", "agent.inactive"]
    assert await store.write(partial(abandon, opened.cycle, reason="r", backoff_ms=0)) is not None
    assert await kinds(store) == ["space.message", "agent.active", "agent.inactive"]
    assert (await kinds(store, "hall"))[-2:] == ["member.left", "agent.inactive"]


async def test_a_space_that_is_forgotten_takes_everything_in_it_along_and_nothing_else(store: Store) -> None:
    for space_id in ("lobby", "hall"):
        await a_space(store, space_id)
        await said(store, "hi", space_id=space_id)
        await store.write(partial(space_tx.put_live, a_stream(space_id)))
    await store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
    with store.bus.listen("space:lobby") as woken:
        assert await store.write(partial(space_tx.delete_space, "lobby"))
        assert woken.is_set()
    for table in ("members", "space_messages", "space_events", "presence", "live_streams"):
        rows = await run(store, f"SELECT DISTINCT space_id FROM {table}")
        assert rows == [{"space_id": "hall"}], table


def a_stream(space_id: str = "lobby", **fields: Any) -> LiveStream:
    usual: dict[str, Any] = {
        "stream_id": f"call_of_{space_id}",
        "space_id": space_id,
        "gateway": "gw_a",
        "kind": "tool",
        "state": "open",
        "run_id": "cycle_1",
        "agent": "ada",
        "agent_name": "Ada",
        "tool": "chart",
        "text": '{"title":"Sa',
    }
    return LiveStream(**(usual | fields))


async def test_what_is_being_said_is_known_to_others_while_its_gateway_lives(store: Store) -> None:
    first = a_stream(stream_id="call_1")
    with store.bus.listen("live:lobby") as woken:
        await store.write(partial(space_tx.put_live, first))
        assert woken.is_set()
    await store.write(partial(space_tx.put_live, a_stream(stream_id="call_2", gateway="gw_gone")))
    await store.write(partial(space_tx.put_live, a_stream("hall")))
    assert await store.read(partial(space_tx.live_in, "lobby")) == [first]
    further = a_stream(stream_id="call_1", text='{"title":"Sales"}', state="done")
    await store.write(partial(space_tx.put_live, further))
    assert await store.read(partial(space_tx.live_in, "lobby")) == [further]
    await store.write(partial(space_tx.drop_live, "call_1"))
    assert await store.read(partial(space_tx.live_in, "lobby")) == []
    await prune(store, keep_days=1)
    assert await run(store, "SELECT stream_id FROM live_streams") == [{"stream_id": "call_of_hall"}]


async def test_old_events_and_messages_go_in_small_steps_but_the_last_messages_stay(store: Store) -> None:
    await a_space(store)
    await a_space(store, "hall")
    count = MESSAGES_KEPT + 30
    await asyncio.gather(*(said(store, f"{n}") for n in range(count)))
    await said(store, "quiet", space_id="hall")
    kept = [message.content for message in await store.read(partial(space_tx.messages, "lobby", limit=MESSAGES_KEPT))]
    for table in ("space_messages", "space_events"):
        await run(store, f"UPDATE {table} SET created_at = 1")
    await said(store, "new")
    assert await prune(store, keep_days=1, limit=20) == 20
    steps = 1
    while await prune(store, keep_days=1, limit=20):
        steps += 1
        assert steps < 100
    messages = await store.read(partial(space_tx.messages, "lobby", limit=1_000))
    assert [message.content for message in messages] == [*kept[1:], "new"]
    assert [message.content for message in await store.read(partial(space_tx.messages, "hall"))] == ["quiet"]
    [left] = await store.read(partial(space_tx.events_after, "lobby", 0, 10))
    assert left.seq == messages[-1].seq == await store.read(partial(space_tx.last_seq, "lobby"))
    assert await store.read(partial(space_tx.events_after, "hall", 0, 10)) == []


async def test_an_id_of_our_own_is_made_for_each_message(store: Store) -> None:
    await a_space(store)
    ids = {(await said(store, "hi")).id for _ in range(3)}
    assert len(ids) == 3
    assert all(one.startswith("msg_") for one in ids)


async def test_the_first_members_of_many_spaces_are_found_at_once(store: Store) -> None:
    for space_id in ("a", "b", "c"):
        await store.write(partial(space_tx.create_space, space_id, name=space_id))
        for n in range(3 if space_id != "b" else 0):
            await store.write(partial(space_tx.put_member, space_id, entity_id=f"p{n}", kind="person", name=f"P{n}"))
        await store.write(partial(space_tx.put_member, space_id, entity_id="ada", kind="agent", name="Ada"))
    around = await store.read(partial(space_tx.members_around, ["a", "b", "nowhere"], besides="ada", most=2))
    assert {space: [member.name for member in members] for space, members in around.items()} == {"a": ["P0", "P1"]}
    assert around["a"] == [
        one for one in await store.read(partial(space_tx.members_of, "a")) if one.entity_id in ("p0", "p1")
    ]
