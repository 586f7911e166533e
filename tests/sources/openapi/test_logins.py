"""Services that are called with a login."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jackfield.errors import LoginNeeded
from jackfield.model.call import Done
from jackfield.sources.kept_listings import KeptListings
from jackfield.store import open_store
from tests.requirement import requirement
from tests.sources.invocations import invocation_of
from tests.sources.logins import SHARED, Logins
from tests.sources.openapi.scene import Service, document, echo, json_body, operation, service
from tests.sources.upstream import Received, Upstream, redirect, reply

DOCUMENT = document(
    {
        "/me": {"get": operation("me")},
        "/make": {"post": operation("make", requestBody=json_body({"type": "object", "properties": {"n": {}}}))},
    }
)
TOKENS = {"Bearer token-of-ann": "ann", "Bearer token-of-bob": "bob"}


def guarded(request: Received) -> bytes:
    """Says whose token it was, and shows the request."""
    person = TOKENS.get(request.headers.get("authorization", ""))
    if person is None:
        return reply(401, b"", www_authenticate="Bearer")
    return echo(replace(request, headers={**request.headers, "x-person": person}))


def document_for_people(request: Received) -> bytes:
    if request.headers.get("authorization", "") not in TOKENS:
        return reply(401, b"", www_authenticate="Bearer")
    return reply(200, msgspec.json.encode(DOCUMENT), content_type="application/json")


async def called(shop: Service, principal: str, name: str = "me", **arguments: Any) -> Any:
    made = replace(invocation_of(shop.tools[name], **arguments), principal=principal)
    outcome = await shop.source.execute(made)
    assert isinstance(outcome, Done), outcome
    return msgspec.json.decode(outcome.result)


@requirement("ID-upstream-openapi")
async def test_each_call_has_its_callers_token(tmp_path: Path) -> None:
    logins = Logins("shop", ann="token-of-ann", bob="token-of-bob")
    async with service(tmp_path, DOCUMENT, logins=logins) as shop:
        shop.upstream.answers |= {"/me": guarded, "/make": guarded}
        found = await asyncio.gather(*(called(shop, "ann" if n % 2 else "bob") for n in range(50)))
        assert [one["headers"]["x-person"] for one in found] == ["bob", "ann"] * 25
        with pytest.raises(LoginNeeded) as needed:
            await called(shop, "eve")
        assert (needed.value.source, needed.value.principal) == ("shop", "eve")
        assert len(shop.upstream.received) == 51


@requirement("ID-upstream-refused-before-acting")
async def test_only_a_refusal_before_acting_has_a_post_sent_again(tmp_path: Path) -> None:
    logins = Logins("shop", ann="old-token-of-ann")
    async with service(tmp_path, DOCUMENT, logins=logins) as shop:
        shop.upstream.answers["/make"] = guarded
        logins.of_principal["ann"].fresh = "token-of-ann"
        assert (await called(shop, "ann", "make", n=1))["body"] == '{"n":1}'
        assert shop.upstream.targets == ["/openapi.json", "/make", "/make"]

        shop.upstream.answers["/make"] = reply(403, b"not yours")
        outcome = await shop.source.execute(replace(invocation_of(shop.tools["make"], n=1), principal="ann"))
        assert "403" in str(outcome)
        shop.upstream.answers["/make"] = reply(500, b"broken")
        await shop.source.execute(replace(invocation_of(shop.tools["make"], n=1), principal="ann"))
        assert shop.upstream.targets[3:] == ["/make", "/make"]


@requirement("ID-upstream-no-login-elsewhere")
async def test_a_redirect_to_another_origin_does_not_get_the_login_nor_say_what_it_needs(tmp_path: Path) -> None:
    logins = Logins("shop", ann="token-of-ann")
    async with Upstream() as elsewhere, service(tmp_path, DOCUMENT, logins=logins, headers={}) as shop:
        elsewhere.answers["/me"] = reply(401, b"", www_authenticate='Bearer resource_metadata="http://evil.example"')
        shop.upstream.answers["/me"] = redirect(f"{elsewhere.at('127.0.0.1')}/me", 307)
        outcome = await shop.source.execute(replace(invocation_of(shop.tools["me"]), principal="ann"))
        assert not isinstance(outcome, Done)
        assert logins.of_principal["ann"].refusals == []
        assert all("authorization" not in request.headers for request in elsewhere.received)


@requirement("ID-upstream-hidden-list")
@pytest.mark.parametrize("is_shared", [True, False])
async def test_a_document_that_is_hidden_is_read_with_a_login_and_outlives_a_restart(
    tmp_path: Path,
    is_shared: bool,  # noqa: FBT001
) -> None:
    store = open_store("memory:", folder=tmp_path, data=tmp_path)
    await store.open()
    kept = KeptListings(store)
    logins = Logins("shop", **({SHARED: "none"} if is_shared else {}))
    async with service(tmp_path, logins=logins, kept=kept) as shop:
        shop.upstream.answers["/openapi.json"] = document_for_people
        before = await shop.list()
        assert before.tools == ()
        assert "jackfield login shop" in (before.login_needed or "")
        name = SHARED if is_shared else "ann"
        login = logins.of("shop", name)
        assert login is not None
        login.token, logins.last = "token-of-ann", name
        assert {tool.name for tool in (await shop.list()).tools} == {"me", "make"}

    login.token, logins.last = None, None
    async with service(tmp_path, logins=logins, kept=KeptListings(store)) as again:
        again.upstream.answers["/openapi.json"] = document_for_people
        listing = await again.list()
        assert listing.login_needed is not None
        assert {tool.name for tool in listing.tools} == {"me", "make"}
    await store.close()
