"""The way of a login through a browser, and what is refused on it."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from jackfield.connections import transactions as tx
from jackfield.gateway.retention import prune
from jackfield.store.scripts import Sql, run
from tests.connections.world import Place, UpstreamServer, config_of, field, gateway_at, go_on, upstream
from tests.requirement import requirement


def changed(back: str, **values: str | None) -> str:
    """A callback with other parameters; None leaves one out."""
    parts = urlsplit(back)
    given: dict[str, str | None] = {**dict(parse_qsl(parts.query)), **values}
    return f"{parts.path}?{urlencode({name: value for name, value in given.items() if value is not None})}"


async def is_connected(place: Place, person: str) -> bool:
    return (await place.connections(person))["far", person] == "connected"


@requirement("ID-flow-page")
async def test_the_page_says_what_the_login_is_for_and_who_is_signed_in(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        link = await place.link("ann")
        assert link.startswith(f"{place.url}/connect/login_")
        path = urlsplit(link).path
        unknown = await place.client.get(path)
        assert unknown.status_code == 303
        assert unknown.headers["location"] == f"/sign-in?return_to={path.replace('/', '%2F')}"
        page = await (await place.browser("ann")).get(path)
        assert page.status_code == 200
        for told in ("far", f"127.0.0.1:{server.port}", "ann", "You are signed in as <strong>ann</strong>"):
            assert told in page.text
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
        pressed = await place.press(link, "ann")
        asked = dict(parse_qsl(urlsplit(go_on(pressed.text)).query))
        assert asked["redirect_uri"] == f"{place.url}/connect/callback"
        assert asked["code_challenge_method"] == "S256"
        assert asked["resource"] == f"{server.url}/mcp"
        assert asked["scope"] == "read"


@requirement("ID-flow-attacks")
async def test_a_form_of_another_site_begins_nothing(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        path = urlsplit(await place.link("ann")).path
        browser = await place.browser("ann")
        assert (await browser.post(path, data={"x": "1"})).status_code == 403
        page = await browser.get(path)
        form = {"form_token": field(page.text, "form_token")}
        foreign = await browser.post(path, data=form, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        bob = await place.browser("bob")
        assert (await bob.post(path, data=form)).status_code == 403  # a token of somebody else's page


WRONG: tuple[dict[str, str | None], ...] = (
    {"state": "guessed"},
    {"state": None},
    {"iss": "https://evil.example"},
    {"iss": None},
    {"code": None},
    {"code": "guessed"},
    {"error": "<script>alert(1)</script>", "code": None},
)


@requirement("ID-flow-attacks")
async def test_an_answer_that_is_not_the_servers_makes_no_login(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        browser = await place.browser("ann")
        for values in WRONG:
            back = await place.callback(await place.link("ann"), "ann")
            refused = await browser.get(changed(back, **values))
            assert refused.status_code in (400, 502), (values, refused.text)
            assert "<script>" not in refused.text
            assert not await is_connected(place, "ann"), values


@requirement("ID-flow-attacks")
async def test_an_answer_counts_once_and_the_link_ends_with_the_login(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        link = await place.link("ann")
        back = await place.callback(link, "ann")
        browser = await place.browser("ann")
        assert (await browser.get(back)).status_code == 200
        again = await browser.get(back)
        assert again.status_code == 400
        assert "This login is finished" in again.text
        assert (await browser.get(urlsplit(link).path)).status_code == 410
        assert await is_connected(place, "ann")
        assert [form["grant_type"] for form in server.forms].count("authorization_code") == 1


@requirement("ID-flow-attacks")
async def test_an_answer_is_taken_from_the_browser_that_began_only(tmp_path: Path) -> None:
    """Login fixation: somebody sends a victim the end of their own login, or the victim's link is opened by another."""
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        back = await place.callback(await place.link("ann"), "ann")
        nobody = await place.client.get(back)
        assert nobody.status_code == 401
        other_person = await (await place.browser("bob")).get(back)
        assert other_person.status_code == 403
        same_person = place.browsers.pop("ann")
        other_browser = await (await place.browser("ann")).get(back)
        assert other_browser.status_code == 403
        assert "another browser" in other_browser.text
        assert not await is_connected(place, "ann")
        assert not await is_connected(place, "bob")
        assert (await same_person.get(back)).status_code == 200
        await same_person.aclose()


@requirement("ID-flow-attacks")
async def test_a_link_is_for_one_person(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        link = await place.link("ann")
        for other in ("bob", "admin"):
            refused = await place.press(link, other)
            assert refused.status_code == 403
            assert "This login is somebody else&#x27;s." in refused.text
            assert "You are signed in as" in refused.text
            assert "/sign-in?return_to=%2Fconnect%2F" in refused.text
        assert (await place.log_in("ann", link)).status_code == 200


async def test_the_last_attempt_counts(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        link = await place.link("ann")
        first = await place.callback(link, "ann")
        second = await place.callback(link, "ann")
        browser = await place.browser("ann")
        assert (await browser.get(first)).status_code == 400
        assert (await browser.get(second)).status_code == 200


@requirement("ID-flow-attacks")
async def test_what_is_no_link_leads_nowhere(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        for path in ("/connect/%2F%2Fevil.example", "/connect/https:evil.example", "/connect/call_nobody"):
            answer = await (await place.browser("ann")).get(path)
            assert answer.status_code in (404, 410)
            assert "location" not in answer.headers
            unknown = await place.client.get(path)
            assert unknown.headers.get("location", "/").startswith("/")
            assert not unknown.headers.get("location", "/").startswith("//")


async def test_a_person_who_declines_can_begin_again(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        link = await place.link("ann")
        server.answer = {"error": "access_denied", "code": None}
        declined = await place.log_in("ann", link)
        assert declined.status_code == 502
        assert "was declined" in declined.text
        server.answer = {}
        assert (await place.log_in("ann", link)).status_code == 200


@requirement("ID-flow-crash")
async def test_a_crash_before_the_commit_leaves_the_login_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_args: Any, **_more: Any) -> Any:
        raise SystemError("killed")

    async with upstream() as server:
        async with gateway_at(tmp_path, server) as place:
            link = await place.link("ann")
            back = await place.callback(link, "ann")
            monkeypatch.setattr(tx, "connect", crash)
            assert (await (await place.browser("ann")).get(back)).status_code == 500
            monkeypatch.undo()
        async with gateway_at(tmp_path, server) as place:
            assert not await is_connected(place, "ann")
            assert (await place.log_in("ann", link)).status_code == 200
            assert await is_connected(place, "ann")


@requirement("ID-secrets-nowhere")
async def test_no_token_is_in_any_answer_record_event_log_or_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    async with upstream() as server:
        async with gateway_at(tmp_path, server, environment={"JACKFIELD_VAULT_KEY": ""}) as place:
            await _many_things(place, server, said)
        key = (tmp_path / ".jackfield" / "vault.key").read_text().strip()
        said.append(caplog.text)
        database = sqlite3.connect(tmp_path / ".jackfield" / "jackfield.db")
        said += database.iterdump()
        database.close()
        everything = "\n".join(said)
        assert "[redacted]" in everything
        assert len(server.secrets) > 5
        for secret in (*server.secrets, key):
            assert secret not in everything, secret


async def _many_things(place: Place, server: UpstreamServer, said: list[str]) -> None:
    """What a careless server and failing logins lead to, and all that the gateway says meanwhile."""

    def keep(answer: httpx2.Response) -> None:
        said.append(answer.text)
        said.extend(f"{name}: {value}" for name, value in answer.headers.items())

    link = await place.link("ann")
    browser = await place.browser("ann")
    keep(await browser.get(urlsplit(link).path))
    keep(await place.log_in("ann", link))
    await place.listed()
    server.mcp.echoes = True
    keep(await place.call("ann"))
    server.expire()
    keep(await place.call("ann"))
    await place.expire("ann")
    server.is_down = True
    keep(await place.call("ann"))
    server.is_down = False
    keep(await place.call("ann"))
    for path in ("/api/v1/calls", "/api/v1/connections", "/api/v1/vault", "/api/v1/sources", "/readyz", "/metrics"):
        keep(await place.client.get(path, headers=place.headers("admin")))
    keep(await place.client.delete("/api/v1/connections/far", headers=place.headers("ann")))


@requirement("ID-flow-call")
async def test_a_call_waits_for_its_callers_login_and_runs_once(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("bob")
        await place.listed()
        waits = await place.call("ann")
        assert waits.status_code == 202, waits.text
        call = waits.json()
        assert call["status"] == "pending_login"
        link = call["login_url"]
        assert link == f"{place.url}/connect/{call['call_id']}"
        page = await (await place.browser("ann")).get(urlsplit(link).path)
        assert "whoami" in page.text
        assert (await place.press(link, "bob")).status_code == 403
        done = await place.log_in("ann", link)
        assert "whoami runs now" in done.text
        record = await place.result("ann", call["call_id"])
        assert (record["status"], record["result"]) == ("completed", "ann")
        assert server.calls == {"ann": 1}
        assert (await place.press(link, "ann")).status_code == 410


@requirement("ID-flow-call")
async def test_a_link_ends_with_its_call_also_between_the_two_servers(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("bob")
        await place.listed()
        call = (await place.call("ann")).json()
        back = await place.callback(call["login_url"], "ann")
        cancelled = await place.client.post(f"/api/v1/calls/{call['call_id']}/cancel", headers=place.headers("ann"))
        assert cancelled.status_code == 200, cancelled.text
        late = await (await place.browser("ann")).get(back)
        assert late.status_code == 410
        assert not await is_connected(place, "ann")
        assert (await place.press(call["login_url"], "ann")).status_code == 410


@requirement("ID-step-up")
async def test_a_call_that_needs_more_scopes_waits_for_another_login_and_runs_once(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        server.mcp.needs_more |= set(server.mcp.people)
        call = (await place.call("ann")).json()
        assert call["status"] == "pending_login", call
        assert (await place.log_in("ann", call["login_url"])).status_code == 200
        record = await place.result("ann", call["call_id"])
        assert (record["status"], record["result"]) == ("completed", "ann")
        assert server.calls == {"ann": 1}
        listed = (await place.client.get("/api/v1/connections", headers=place.headers("ann"))).json()
        assert sorted(listed["connections"][0]["scopes"]) == ["read", "write"]


@requirement("ID-flow-call")
async def test_a_shared_login_that_a_call_waits_for_is_an_administrators(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, config=config_of(server, auth="shared")) as place:
        await place.log_in("admin")
        await place.listed()
        await place.client.delete("/api/v1/connections/far", headers=place.headers("admin"))
        call = (await place.call("ann")).json()
        assert call["status"] == "pending_login", call
        seen = await place.client.get(f"/api/v1/calls/{call['call_id']}", headers=place.headers("admin"))
        link = seen.json()["call"]["login_url"]
        assert (await place.press(link, "ann")).status_code == 403
        assert (await place.log_in("admin", link)).status_code == 200
        assert (await place.result("ann", call["call_id"]))["result"] == "admin"


async def test_links_are_bounded_and_forgotten(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        links = [await place.link("ann") for _ in range(tx.MOST_FLOWS + 1)]
        browser = await place.browser("ann")
        assert (await browser.get(urlsplit(links[0]).path)).status_code == 410
        assert (await browser.get(urlsplit(links[-1]).path)).status_code == 200
        await place.press(links[-1], "ann")
        entries = (await place.gateway.vault.status()).sealed
        assert entries == 3  # the check, the gateway's registration, what the answer is checked against
        store = place.gateway.store
        await store.write(partial(run, Sql("over", "UPDATE login_flows SET expires_at = 0")))
        await prune(store, keep_days=30)
        assert (await place.gateway.vault.status()).sealed == 2
        assert not await store.read(partial(run, Sql("left", "SELECT id FROM login_flows")))
