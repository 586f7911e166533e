"""Responses in the background that wait for somebody: nobody has them in hand, and they go on with the answer."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.runs import transactions as run_tx
from tests.calls.login_harness import SOURCE, LoginServer, add_login_source
from tests.requirement import requirement
from tests.responses.live import ASK, CATALOG, Live, kinds, live, texts
from tests.store.intercepting import intercept

SCRIPT = """
[[turns]]
when = { user = "pay twice" }
say = "Paying."
calls = [{ tool = "pay", arguments = { amount = 1 } }, { tool = "look", arguments = { n = 7 } },
         { tool = "pay", arguments = { amount = 2 } }]
[[turns]]
when = { user = "pay" }
calls = [{ tool = "pay", arguments = { amount = 5 } }]
[[turns]]
when = { user = "ask" }
calls = [{ tool = "ask_ann", arguments = { q = "when?" } }]
[[turns]]
when = { result = "pay", says = "(?P<what>.+)" }
say = "It says: {what}"
[[turns]]
when = { result = "ask_ann", says = "(?P<what>.+)" }
say = "Ann says: {what}"
[otherwise]
say = "Noted."
"""


@requirement("RUN-responses-park")
async def test_an_approval_parks_a_response_and_it_goes_on_with_the_result(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        response = await here.create("pay")
        [call] = await here.parked(response.id)
        found = await here.openai.responses.retrieve(response.id)
        assert (found.status, [item.type for item in found.output]) == (
            "in_progress",
            ["mcp_list_tools", "mcp_approval_request"],
        )
        assert found.output[1].id == f"mcpr_{call['id']}"
        await here.approve(call)
        ended = await here.ended(response.id)
        assert kinds(ended) == ["mcp_list_tools", "mcp_approval_request", "mcp_call", "message"]
        assert ended["output"][2]["approval_request_id"] == found.output[1].id
        assert (ended["output"][2]["status"], ended["output"][2]["output"]) == ("completed", "paid 5")
        assert texts(ended) == ["It says: paid 5"]
        assert here.starts == ["pay-5"]


@requirement("RUN-responses-park")
async def test_it_waits_for_all_calls_of_its_step_and_what_was_refused_is_told_to_the_model(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        response = await here.create("pay twice")
        one, two = await here.parked(response.id)
        await here.reject(one)
        assert (await here.get(response.id))["status"] == "in_progress"
        await here.approve(two)
        ended = await here.ended(response.id)
        shown = [item for item in ended["output"] if item["type"] == "mcp_call"]
        assert sorted(item["status"] for item in shown) == ["completed", "completed", "failed"]
        [refused] = [item for item in shown if item["status"] == "failed"]
        assert "Too much." in str(refused["error"])
        assert "Too much." in str(here.model.requests[-1].items)
        assert texts(ended)[0] == "Paying."
        assert len(here.starts) == 2


@requirement("RUN-responses-park")
@pytest.mark.parametrize("more", [{}, {"isAsync": True}])
async def test_a_call_that_somebody_else_answers_parks_it_until_the_answer(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    async with live(tmp_path, SCRIPT) as here:
        tool = {**ASK, **more, "timeout": 1}
        assert (await here.client.post("/api/v1/tools", json=tool)).status_code == 201
        response = await here.create("ask")
        [call] = await here.parked(response.id)
        assert call["status"] == "pending"
        found = await here.get(response.id)
        assert [(item["type"], item.get("status")) for item in found["output"]] == [
            ("mcp_list_tools", None),
            ("mcp_call", "in_progress"),
        ]
        await here.answer(call, "tomorrow")
        ended = await here.ended(response.id)
        assert ended["output"][1]["output"] == "tomorrow"
        assert texts(ended) == ["Ann says: tomorrow"]


@requirement("RUN-responses-park")
async def test_a_call_that_expires_is_told_to_the_model(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        await here.client.post("/api/v1/tools", json=ASK)
        response = await here.create("ask")
        await here.parked(response.id)
        await here.rows("UPDATE calls SET expires_at = 1 WHERE tool = 'ask_ann'")
        ended = await here.ended(response.id)
        assert ended["output"][1]["status"] == "failed"
        assert texts(ended)[0].startswith("Ann says: ")


@requirement("RUN-responses-cancel")
async def test_cancelling_a_parked_response_cancels_what_it_waits_for(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        response = await here.create("pay twice")
        await here.parked(response.id)
        cancelled = await here.openai.responses.cancel(response.id)
        assert cancelled.status == "cancelled"
        assert sorted(call["status"] for call in await here.calls(response.id)) == [
            "cancelled",
            "cancelled",
            "completed",
        ]
        await here.ended(response.id, "cancelled")
        assert here.starts == ["look-7"]


@requirement("RUN-responses-park")
async def test_a_request_that_continues_a_parked_response_ends_it_and_goes_on_from_there(tmp_path: Path) -> None:
    """As OpenAI's clients answer an approval: with the next request."""
    async with live(tmp_path, SCRIPT) as here:
        first = await here.create("pay")
        [call] = await here.parked(first.id)
        yes: Any = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{call['id']}", "approve": True}
        with pytest.raises(Exception, match="nobody"):
            await here.create([yes], previous_response_id=first.id, model="nobody")
        assert (await here.get(first.id))["status"] == "in_progress"
        second = await here.create([yes], previous_response_id=first.id)
        ended = await here.ended(first.id)
        assert kinds(ended) == ["mcp_list_tools", "mcp_approval_request"]
        assert texts(await here.ended(second.id)) == ["It says: paid 5"]
        assert here.starts == ["pay-5"]


@requirement("RUN-responses-park")
async def test_a_response_that_a_client_waits_for_ends_with_the_request_as_before(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        response = await here.create("pay", background=False)
        assert (response.status, [item.type for item in response.output]) == (
            "completed",
            ["mcp_list_tools", "mcp_approval_request"],
        )


@requirement("RUN-responses-streams")
async def test_a_stream_stays_open_while_the_response_is_parked(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        types: list[str] = []
        async with await here.create("pay", stream=True) as stream:
            async for event in stream:
                types.append(event.type)
                if event.type == "response.output_item.done" and event.item.type == "mcp_approval_request":
                    response_id = await newest(here)
                    [call] = await here.parked(response_id)
                    await here.approve(call)
        assert types[-1] == "response.completed"
        assert types == [event["type"] for event in await here.stream(response_id)]
        async with here.openai.responses.stream(response_id=response_id, starting_after=4) as again:
            numbers = [event.sequence_number async for event in again]
            final = await again.get_final_response()
        assert numbers == list(range(5, len(types)))
        assert final.output_text == "It says: paid 5"


async def newest(here: Live) -> str:
    [row] = await here.rows("SELECT id FROM runs ORDER BY id DESC LIMIT 1")
    return str(row["id"])


@requirement("RUN-responses-limit")
async def test_as_many_are_at_work_as_may_be_and_who_has_fewest_comes_first(tmp_path: Path) -> None:
    config = """
[responses]
max_background = 2

[auth.keys.other]
key = "other-key"
scopes = ["call"]
"""
    async with live(tmp_path, SLOW, config) as here:
        await here.client.post("/api/v1/tools", json=ASK)
        parked = await here.create("ask")
        [call] = await here.parked(parked.id)
        held = [await here.create(f"hold {n}") for n in range(2)]
        mine = [await here.create(f"Turn {n} of mine") for n in range(3)]
        theirs = await here.openai.with_options(api_key="other-key").responses.create(
            model="mind", input="Turn of another", background=True
        )
        made = (*held, *mine, theirs)
        assert [one.status for one in made] == ["queued"] * 6
        assert [(await here.get(one.id))["status"] for one in made] == ["in_progress"] * 2 + ["queued"] * 4
        assert [event["type"] for event in await here.told(mine[0].id)] == ["response.created", "response.queued"]
        with pytest.raises(Exception, match="nobody"):
            await here.create("Hi", model="nobody")
        assert (await here.openai.responses.cancel(mine[2].id)).status == "cancelled"
        (tmp_path / "go-0").touch()
        assert texts(await here.ended(mine[1].id)) == ["Noted."]
        asked = [str(request.items[0]) for request in here.model.requests]
        order = [next(n for n, text in enumerate(asked) if what in text) for what in ("another", "0 of m", "1 of m")]
        assert order == sorted(order), "who has nothing at work comes before who has, and then who came first"
        (tmp_path / "go-1").touch()
        for one in (*held, mine[0], theirs):
            await here.ended(one.id)
        await here.answer(call, "tomorrow")
        await here.ended(parked.id)


@requirement("RUN-rights-kept")
async def test_a_call_is_not_approved_when_its_caller_may_not_make_it_any_more(tmp_path: Path) -> None:
    def limited_to(tool: str) -> str:
        return f'[auth.keys.limited]\nkey = "limited-key"\nscopes = ["call"]\ntools = ["{tool}"]\n'

    store = f"sqlite:{tmp_path / 'kept.db'}"
    async with live(tmp_path, SCRIPT, limited_to("pay"), store=store) as here:
        limited = here.openai.with_options(api_key="limited-key")
        made = await limited.responses.create(model="mind", input="pay", background=True, tools=[CATALOG])
        [call] = await here.parked(made.id)
    async with live(tmp_path, SCRIPT, limited_to("look"), store=store) as here:
        refused = await here.client.post(f"/api/v1/calls/{call['id']}/approve", json={})
        assert refused.status_code == 409
        assert "may not call 'pay' any more" in refused.json()["error"]["message"]
        await here.reject(call)
        assert (await here.ended(made.id, "failed"))["error"]["code"] == "forbidden"
        assert here.starts == []


@requirement("RUN-responses-limit")
async def test_one_that_is_begun_while_a_place_is_given_away_does_not_come_before_those_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = '[responses]\nmax_background = 1\n[auth.keys.other]\nkey = "other-key"\nscopes = ["call"]\n'
    async with live(tmp_path, SLOW, config) as here:
        held = await here.create("hold 0")
        theirs = await here.openai.with_options(api_key="other-key").responses.create(
            model="mind", input="The turn of another", background=True
        )
        begun: list[str] = []
        place_is_free = asyncio.Event()

        async def just_before(kind: Any, *, limit: int) -> list[str]:
            if kind == "response" and limit and not begun:
                begun.append("")
                begun[0] = (await here.create("A turn of mine")).id
                place_is_free.set()
            return await here.gateway.store.read(partial(run_tx.runs_to_claim, kind, limit=limit))

        intercept(monkeypatch, here.gateway.store, run_tx.runs_to_claim, just_before)
        (tmp_path / "go-0").touch()
        await place_is_free.wait()
        for response_id in (held.id, theirs.id, begun[0]):
            await here.ended(response_id)
        asked = [str(request.items[-1]) for request in here.model.requests]
        order = [next(n for n, text in enumerate(asked) if what in text) for what in ("of another", "of mine")]
        assert order == sorted(order)


SLOW = r"""
[[turns]]
when = { user = "ask" }
calls = [{ tool = "ask_ann", arguments = { q = "when?" } }]
[[turns]]
when = { user = 'hold (?P<n>\d)' }
calls = [{ tool = "hold", arguments = { n = "{n:int}" } }]
[otherwise]
say = "Noted."
"""
FAILS = """
[[turns]]
when = { user = "try" }
say = "One moment."
calls = [{ tool = "look", arguments = { n = 3 } }]
[[turns]]
say = "It comes to"
fail = "The model is out of order."
[[turns]]
say = "It comes to 3."
"""


@requirement("RUN-responses-resume")
@pytest.mark.parametrize("how", ["background", "foreground"])
async def test_a_response_that_failed_is_resumed_from_its_last_step(tmp_path: Path, how: str) -> None:
    async with live(tmp_path, FAILS) as here:
        background = how == "background"
        made = await here.create("try", background=background)
        failed = await here.ended(made.id, "failed") if background else await here.get(made.id)
        assert failed["error"]["message"] == "The model is out of order."
        read = len(await here.stream(made.id)) if background else 0
        await here.resume(made.id)
        ended = await here.ended(made.id)
        assert texts(ended)[-1] == "It comes to 3."
        assert here.starts == ["look-3"]
        assert (await here.stream(made.id, read - 1))[0]["sequence_number"] == read
        async with here.openai.responses.stream(response_id=made.id, starting_after=-1) as stream:
            final = await stream.get_final_response()
        assert final.output_text.endswith("It comes to 3.")


@requirement("RUN-responses-resume")
async def test_what_has_not_failed_is_not_resumed(tmp_path: Path) -> None:
    async with live(tmp_path, SCRIPT) as here:
        made = await here.create("Hi", background=False)
        await here.resume(made.id, status=409)
        parked = await here.create("pay")
        await here.parked(parked.id)
        await here.resume(parked.id, status=409)
        unkept = await here.create("Hi", background=False, store=False)
        await here.resume(unkept.id, status=404)


@requirement("RUN-responses-park")
async def test_a_call_that_wants_a_login_parks_it_until_somebody_has_logged_in(tmp_path: Path) -> None:
    server = LoginServer()
    async with live(tmp_path, BOOKS) as here:
        await add_login_source(here.gateway, server)
        response = await here.create("book it")
        [call] = await here.parked(response.id)
        assert call["status"] == "pending_login"
        server.log_in("caller")
        await here.gateway.answers.login_done(SOURCE, "caller")
        ended = await here.ended(response.id)
        assert (ended["output"][1]["status"], texts(ended)) == ("completed", ["Noted."])
        assert server.acted == [call["id"]]


BOOKS = """
[[turns]]
when = { user = "book it" }
calls = [{ tool = "book", arguments = { n = 1 } }]
[otherwise]
say = "Noted."
"""


@requirement("RUN-responses-streams", "RUN-responses-limit")
async def test_gateways_on_one_database_answer_stream_cancel_and_take_up_each_others_responses(
    tmp_path: Path, postgres_url: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    config = "[responses]\nmax_background = 1\n"
    async with (
        live(tmp_path / "a", HOLDS + SCRIPT, config, store=postgres_url) as a,
        live(tmp_path / "b", HOLDS + SCRIPT, config, store=postgres_url) as b,
    ):
        parked = await a.create("pay")
        reading = asyncio.create_task(b.stream(parked.id))
        [call] = await b.parked(parked.id)
        held = await a.create("hold 0")
        await b.approve(call)
        ended = await b.ended(parked.id)
        assert await reading == await a.stream(parked.id)
        assert texts(ended) == ["It says: paid 5"]
        assert b.starts == ["pay-5"], "a has no room"
        other = await a.create("pay")
        await b.parked(other.id)
        cancelled = await b.openai.responses.cancel(other.id)
        assert cancelled.status == "cancelled"
        assert [one["status"] for one in await a.calls(other.id)] == ["cancelled"]
        (tmp_path / "a" / "go-0").touch()
        await a.ended(held.id)


HOLDS = r"""
[[turns]]
when = { user = 'hold (?P<n>\d)' }
calls = [{ tool = "hold", arguments = { n = "{n:int}" } }]
"""
