"""Spaces over HTTP: who may do what, what was said, and the stream that misses nothing."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from jackfield.model.space import LONGEST_MESSAGE
from jackfield.spaces.records import MOST_METADATA
from tests.harness.api import ADMIN_KEY, error_of, key_of
from tests.harness.process import start_gateway
from tests.requirement import requirement
from tests.stories.spaces import Lobby, followed, open_lobby

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def lobby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lobby]:
    with open_lobby(tmp_path_factory.mktemp("spaces")) as opened:
        yield opened


@pytest.fixture
def space(lobby: Lobby, request: pytest.FixtureRequest) -> str:
    """A space of the test's own."""
    space = f"s_{abs(hash(request.node.name))}"
    lobby.made("POST", "/api/spaces", status=201, json={"id": space, "name": request.node.name[:100]})
    return space


@requirement("CON-spaces-crud")
@pytest.mark.parametrize("root", ["/api/spaces", "/api/smart-spaces"])
def test_a_space_is_made_shown_changed_and_deleted(lobby: Lobby, root: str) -> None:
    made = lobby.made("POST", root, status=201, json={"name": "Trip", "description": "Tokyo", "metadata": {"a": [1]}})
    space = made["space"]
    assert set(space) == {"id", "name", "description", "metadata", "lastSeq", "createdAt", "updatedAt"}
    assert (space["name"], space["description"], space["metadata"], space["lastSeq"]) == (
        "Trip",
        "Tokyo",
        {"a": [1]},
        0,
    )
    path = f"{root}/{space['id']}"
    assert lobby.made("GET", path) == made
    assert space | {"members": 0, "lastMessage": None} in lobby.made("GET", root)["spaces"]
    changed = lobby.made("PATCH", path, json={"name": "Journey"})["space"]
    assert (changed["name"], changed["description"], changed["metadata"]) == ("Journey", "Tokyo", {"a": [1]})
    lobby.made("POST", f"{path}/messages", status=201, json={"content": "gone soon"})
    lobby.made("PATCH", f"{path}/read", json={})
    assert lobby.made("DELETE", path) == {"success": True}
    for method, end in [("GET", ""), ("GET", "/members"), ("GET", "/messages"), ("GET", "/stream"), ("DELETE", "")]:
        answer = lobby.ask(method, path + end)
        assert (answer.status_code, error_of(answer)["code"]) == (404, "space_not_found")


@requirement("CON-spaces-crud")
@pytest.mark.parametrize("root", ["/api/spaces", "/api/smart-spaces"])
def test_members_join_and_leave(lobby: Lobby, space: str, root: str) -> None:
    path = f"{root}/{space}/members"
    joined = lobby.made("POST", path, status=201, json={"entityId": "husam", "name": "Husam"})["member"]
    assert (joined["entityId"], joined["kind"], joined["name"]) == ("husam", "person", "Husam")
    lobby.made("POST", path, status=201, json={"entityId": "robot", "kind": "agent"})
    members = lobby.made("GET", path)["members"]
    assert [(each["entityId"], each["kind"]) for each in members] == [("husam", "person"), ("robot", "agent")]
    assert lobby.made("DELETE", f"{path}/husam") == {"success": True}
    assert lobby.ask("DELETE", f"{path}/husam").status_code == 404
    assert [each["entityId"] for each in lobby.made("GET", path)["members"]] == ["robot"]


@requirement("CON-spaces-read-kept")
@pytest.mark.parametrize("root", ["/api/spaces", "/api/smart-spaces"])
def test_what_somebody_has_read_is_kept_and_shown_with_the_members(lobby: Lobby, space: str, root: str) -> None:
    path = f"{root}/{space}"
    said = [
        lobby.made("POST", f"{path}/messages", status=201, json={"entityId": "husam", "content": str(number)})[
            "message"
        ]
        for number in range(3)
    ]
    lobby.made("POST", f"{path}/members", status=201, json={"entityId": "robot", "kind": "agent"})
    [husam, robot] = lobby.made("GET", f"{path}/members")["members"]
    assert (husam["lastSeenSeq"], husam["lastSeenMessageId"], robot["lastSeenAt"]) == (None, None, None)
    for body, seen in [
        ({"messageId": said[1]["id"]}, said[1]),
        ({"lastSeenSeq": said[0]["seq"]}, said[1]),
        ({"lastSeenMessageId": said[2]["id"], "unknown": 1}, said[2]),
    ]:
        read = lobby.made("PATCH", f"{path}/read", json={"entityId": "husam", **body})
        assert (read["success"], read["lastSeenSeq"], read["lastSeenMessageId"]) == (True, seen["seq"], seen["id"])
    [husam, robot] = lobby.made("GET", f"{path}/members")["members"]
    assert (husam["lastSeenSeq"], husam["lastSeenMessageId"]) == (said[2]["seq"], said[2]["id"])
    assert husam["lastSeenAt"] >= husam["joinedAt"]
    assert robot["lastSeenSeq"] is None
    everything = lobby.made("PATCH", f"{path}/read")
    assert (everything["entityId"], everything["lastSeenMessageId"]) == ("admin", said[2]["id"])
    for wrong, status in [({"messageId": "msg_none"}, 404), ({"seq": -1}, 400), ({"seq": "x"}, 400)]:
        assert lobby.ask("PATCH", f"{path}/read", json=wrong).status_code == status
    assert lobby.ask("PATCH", f"{path}/read", key="caller", json={"entityId": "husam"}).status_code == 403


def test_ids_are_taken_once_and_are_names_where_none_is_given(lobby: Lobby) -> None:
    answer = lobby.ask("POST", "/api/spaces", json={"id": "lobby"})
    assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")
    space = lobby.made("POST", "/api/spaces", status=201, json={})["space"]
    assert space["id"] == space["name"]
    for wrong in ("no slash/es", "lobby\n", ".", ".."):
        assert lobby.ask("POST", "/api/spaces", json={"id": wrong}).status_code == 400, wrong
        assert lobby.ask("POST", "/api/agents", json={"id": wrong}).status_code == 400, wrong
    assert lobby.ask("POST", "/api/spaces/nowhere/members", json={"entityId": "x"}).status_code == 404
    assert lobby.ask("PATCH", "/api/spaces/nowhere", json={"name": "x"}).status_code == 404


def test_what_all_are_told_has_a_size(lobby: Lobby, space: str) -> None:
    path, much = f"/api/spaces/{space}/messages", {"a": "x" * MOST_METADATA}
    assert lobby.ask("POST", path, json={"content": "x" * LONGEST_MESSAGE}).status_code == 201
    for body in ({"content": "x" * (LONGEST_MESSAGE + 1)}, {"content": "x", "metadata": much}):
        answer = lobby.ask("POST", path, json=body)
        assert (answer.status_code, error_of(answer)["param"]) == (400, [*body][-1])
    assert lobby.ask("POST", "/api/spaces", json={"metadata": much}).status_code == 400
    assert lobby.ask("PATCH", f"/api/spaces/{space}", json={"metadata": much}).status_code == 400
    assert lobby.ask("POST", path, json={"content": "x", "id": "mine\n"}).status_code == 400


@requirement("CON-spaces-crud")
def test_messages_are_read_by_pages_in_their_order(lobby: Lobby, space: str) -> None:
    said = [lobby.say(f"message {number}", space=space) for number in range(10)]
    path = f"/api/smart-spaces/{space}/messages"
    page = lobby.made("GET", path, params={"limit": 3})
    assert page == {"messages": said[-3:], "lastSeq": said[-1]["seq"]}
    assert lobby.messages(space, limit=3, beforeSeq=said[4]["seq"]) == said[1:4]
    assert lobby.messages(space, limit=3, afterSeq=said[4]["seq"]) == said[5:8]
    assert lobby.messages(space, afterSeq=said[4]["seq"], beforeSeq=said[7]["seq"]) == said[5:7]
    assert lobby.messages(space, afterSeq=said[-1]["seq"]) == []
    for wrong in ({"limit": 201}, {"limit": 0}, {"afterSeq": -1}, {"afterSeq": "x"}, {"after": 1}):
        assert lobby.ask("GET", path, params=wrong).status_code == 400


def test_a_message_says_who_said_what_where_and_when(lobby: Lobby, space: str) -> None:
    message = lobby.say("hello", space=space, key="caller", metadata={"mood": "good"})
    created = message.pop("createdAt")
    assert created.endswith("Z")
    assert len(created) == len("2026-01-15T10:30:00.000Z")
    assert message.pop("id").startswith("msg_")
    assert isinstance(message.pop("seq"), int)
    assert message == {
        "spaceId": space,
        "smartSpaceId": space,
        "entityId": "caller",
        "senderName": "caller",
        "senderType": "person",
        "role": "user",
        "content": "hello",
        "metadata": {"mood": "good"},
        "runId": None,
    }
    members = lobby.made("GET", f"/api/spaces/{space}/members")["members"]
    assert [(each["entityId"], each["kind"]) for each in members] == [("caller", "person")]


def test_a_message_sent_again_under_its_id_is_said_once(lobby: Lobby, space: str) -> None:
    first = lobby.say("once", space=space, id=f"own-{space}")
    assert lobby.say("once", space=space, id=f"own-{space}") == first
    assert lobby.messages(space) == [first]
    for other in ({"content": "another"}, {"content": "once", "entityId": "husam"}):
        answer = lobby.ask("POST", f"/api/spaces/{space}/messages", json={"id": f"own-{space}", **other})
        assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")
    answer = lobby.ask("POST", "/api/spaces/lobby/messages", json={"id": f"own-{space}", "content": "once"})
    assert answer.status_code == 409
    assert lobby.messages(space) == [first]


@requirement("CON-spaces-speak-as-self")
def test_only_an_administrator_speaks_as_another(lobby: Lobby, space: str) -> None:
    assert lobby.say("as another", space=space, entityId="husam")["entityId"] == "husam"
    assert lobby.say("as myself", space=space)["entityId"] == "admin"
    assert lobby.say("as myself", space=space, key="caller", entityId="caller")["entityId"] == "caller"
    lobby.join("ada", space=space, kind="agent")
    assert lobby.say("as an agent", space=space, key="ada")["senderType"] == "agent"
    for key, entity in (("caller", "husam"), ("caller", "admin"), ("caller", "ada"), ("ada", "caller")):
        answer = lobby.ask("POST", f"/api/spaces/{space}/messages", key=key, json={"content": "no", "entityId": entity})
        assert (answer.status_code, error_of(answer)["code"]) == (403, "forbidden")
    assert [each["content"] for each in lobby.messages(space)] == [
        "as another",
        "as myself",
        "as myself",
        "as an agent",
    ]


def test_an_agent_sees_and_speaks_where_it_is_a_member_and_nowhere_else(lobby: Lobby, space: str) -> None:
    for method, end, body in (
        ("GET", "", None),
        ("GET", "/messages", None),
        ("GET", "/members", None),
        ("GET", "/stream", None),
        ("POST", "/messages", {"content": "no"}),
    ):
        assert lobby.ask(method, f"/api/spaces/{space}{end}", key="ada", json=body).status_code == 403
    assert [each["id"] for each in lobby.made("GET", "/api/spaces", key="ada")["spaces"]].count(space) == 0
    lobby.join("ada", space=space, kind="agent")
    assert [each["id"] for each in lobby.made("GET", "/api/spaces", key="ada")["spaces"]].count(space) == 1
    lobby.made("GET", f"/api/spaces/{space}/messages", key="ada")


@pytest.mark.parametrize(
    ("key", "reads", "speaks"),
    [("reader", 200, 403), ("caller", 200, 201), ("answerer", 403, 403), ("server", 403, 403), ("sandbox", 403, 403)],
)
def test_each_key_does_what_its_scopes_say(lobby: Lobby, space: str, key: str, reads: int, speaks: int) -> None:
    for path in (
        "/api/spaces",
        f"/api/spaces/{space}",
        f"/api/spaces/{space}/messages",
        f"/api/spaces/{space}/members",
    ):
        assert lobby.ask("GET", path, key=key).status_code == reads
    said = lobby.ask("POST", f"/api/spaces/{space}/messages", key=key, json={"content": "hello"})
    assert said.status_code == speaks
    for method, path, body in (
        ("POST", "/api/spaces", {"name": "Mine"}),
        ("PATCH", f"/api/spaces/{space}", {"name": "Mine"}),
        ("DELETE", f"/api/spaces/{space}", None),
        ("POST", f"/api/spaces/{space}/members", {"entityId": "me"}),
        ("DELETE", f"/api/spaces/{space}/members/me", None),
    ):
        assert lobby.ask(method, path, key=key, json=body).status_code == 403
    assert lobby.ask("GET", f"/api/spaces/{space}", key=None).status_code == 401


async def test_the_stream_is_plain_data_with_ids_for_what_lasts(lobby: Lobby, space: str) -> None:
    headers = {"x-api-key": key_of("reader")}
    async with (
        httpx2.AsyncClient(base_url=lobby.api.gateway.url, timeout=20) as client,
        client.stream("GET", f"/api/smart-spaces/{space}/stream", headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        text = ""
        async for piece in answer.aiter_text():
            text += piece
            if '"connected"' in text and text.count("\n\n") == 1:
                lobby.say("two\nlines", space=space)
            if "space.message" in text:
                break
    assert "event:" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith((": ", "id: ", "data: {"))]
    assert lines == []
    assert 'id: 2\ndata: {"type":"space.message","seq":2,"message":{' in text


@requirement("CON-spaces-stream-resume")
@pytest.mark.parametrize("by", ["header", "parameter"])
async def test_a_stream_goes_on_where_it_was(lobby: Lobby, space: str, by: str) -> None:
    async with followed(lobby, space=space) as stream:
        for number in range(3):
            lobby.say(f"first {number}", space=space)
        await stream.until(3)
        last = stream.last_id
        seen = stream.seqs
    for number in range(5):
        lobby.say(f"meanwhile {number}", space=space)
    resumed = (
        followed(lobby, space=space, last_id=last, afterSeq=0)
        if by == "header"
        else followed(lobby, space=space, afterSeq=int(last))
    )
    async with resumed as stream:
        end = lobby.say("last", space=space)["seq"]
        await stream.until(end)
        assert seen + stream.seqs == list(range(1, end + 1))
        assert [event["message"]["content"] for event in stream.events if "message" in event] == [
            "first 2",
            *(f"meanwhile {number}" for number in range(5)),
            "last",
        ]


async def test_a_stream_without_a_number_begins_now(lobby: Lobby, space: str) -> None:
    before = lobby.say("before", space=space)["seq"]
    async with followed(lobby, space=space) as stream:
        assert stream.events[0]["lastSeq"] == before
        assert (stream.events[0]["spaceId"], stream.events[0]["smartSpaceId"]) == (space, space)
        assert stream.events[0]["activeAgents"] == []
        after = lobby.say("after", space=space)
        assert await stream.next() == {"type": "space.message", "seq": after["seq"], "message": after}


@pytest.mark.parametrize("wrong", ["abc", "-1", "1.5", "9" * 30])
def test_a_last_event_id_that_is_none_is_refused(lobby: Lobby, wrong: str) -> None:
    answer = lobby.ask("GET", "/api/spaces/lobby/stream", headers={"Last-Event-ID": wrong})
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")


async def test_comings_and_goings_are_events_and_a_deleted_space_ends_its_streams(lobby: Lobby, space: str) -> None:
    async with followed(lobby, space=space) as stream:
        lobby.join("husam", space=space)
        joined = await stream.next()
        assert (joined["type"], joined["entityId"], joined["kind"]) == ("member.joined", "husam", "person")
        lobby.made("DELETE", f"/api/spaces/{space}/members/husam")
        assert (await stream.next())["type"] == "member.left"
        lobby.made("PATCH", f"/api/spaces/{space}", json={"name": "Another"})
        assert (await stream.next())["type"] == "space.updated"
        lobby.made("DELETE", f"/api/spaces/{space}")
        with pytest.raises(EOFError):
            await stream.next()


async def test_an_agent_that_is_taken_out_of_a_space_hears_no_more_of_it(lobby: Lobby, space: str) -> None:
    lobby.join("ada", space=space, kind="agent")
    async with followed(lobby, space=space, key="ada") as stream, followed(lobby, space=space, key="reader") as other:
        lobby.made("DELETE", f"/api/spaces/{space}/members/ada")
        lobby.say("among us", space=space)
        assert (await stream.next())["type"] == "member.left"
        with pytest.raises(EOFError):
            await stream.next()
        assert (await other.event("space.message"))["message"]["content"] == "among us"


@requirement("CON-spaces-stream-resume")
async def test_a_stream_goes_on_after_the_gateway_was_killed(tmp_path: Path) -> None:
    with open_lobby(tmp_path) as lobby:
        async with followed(lobby) as stream:
            kept = lobby.say("kept")
            await stream.until(kept["seq"])
            last = stream.last_id
            also = lobby.say("also kept")
            lobby.api.gateway.kill()
        again = start_gateway(tmp_path, env={"JACKFIELD_ADMIN_KEY": ADMIN_KEY})
        try:
            assert lobby.messages() == [kept, also]
            async with followed(lobby, last_id=last) as stream:
                assert (await stream.next())["message"] == also
        finally:
            again.stop()


@requirement("CONSOLE-lists-about")
def test_the_list_says_how_many_are_in_a_space_and_what_was_said_last(lobby: Lobby, space: str) -> None:
    def listed() -> dict[str, object]:
        return next(one for one in lobby.made("GET", "/api/spaces")["spaces"] if one["id"] == space)

    assert (listed()["members"], listed()["lastMessage"]) == (0, None)
    lobby.made("POST", f"/api/spaces/{space}/members", status=201, json={"entityId": "husam"})
    for words in ("first", "last " + "x" * 1000):
        lobby.made("POST", f"/api/spaces/{space}/messages", status=201, json={"entityId": "husam", "content": words})
    last = listed()["lastMessage"]
    assert isinstance(last, dict)
    assert (listed()["members"], last["senderName"], last["content"]) == (1, "husam", "last " + "x" * 295)
