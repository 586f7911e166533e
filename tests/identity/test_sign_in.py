"""The sign-in page: what it sends, whom it lets in, and the attacks on it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.identity.pages import element, page_headers
from tests.harness.in_process import KEY, client_of, make_gateway
from tests.requirement import requirement

OWN = {"origin": "http://localhost:8420"}


@asynccontextmanager
async def browser_at(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with cookies and no key."""
    async with client_of(gateway) as client:
        client.headers.pop("x-api-key")
        yield client


def token_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', page)
    assert found is not None, page
    return found[1]


async def sign_in(browser: httpx2.AsyncClient, key: str = KEY, *, return_to: str = "/") -> httpx2.Response:
    shown = await browser.get("/sign-in", params={"return_to": return_to})
    assert shown.status_code == 200, shown.text
    form = {"key": key, "return_to": return_to, "form_token": token_in(shown.text)}
    return await browser.post("/sign-in", data=form, headers=OWN)


@requirement("ID-people-sign-in-page")
async def test_a_key_signs_in_by_a_form_without_javascript(tmp_path: Path) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as browser:
        answer = await sign_in(browser, return_to="/?x=1#/spaces")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/sign-in?done=yes&return_to=%2F%3Fx%3D1%23%2Fspaces"
        assert "SameSite=Lax" in answer.headers["set-cookie"]
        assert KEY not in answer.headers["set-cookie"]
        done = await browser.get(answer.headers["location"])
        assert 'content="0; url=/?x=1#/spaces"' in done.text
        assert "<script" not in done.text
        assert (await browser.get("/api/login")).json()["principal"] == "admin"
        again = await browser.get("/sign-in")
        assert "You are signed in as <strong>admin</strong>" in again.text
        assert "http-equiv" not in again.text


@requirement("ID-people-wrong-key")
async def test_a_wrong_key_gets_a_sentence_and_no_cookie(tmp_path: Path) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as browser:
        answer = await sign_in(browser, "<b>wrong</b>")
        assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert "The key is unknown to this gateway." in answer.text
        assert "wrong" not in answer.text
        assert "jackfield" not in browser.cookies


@requirement("ID-attack-open-redirect")
@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "https:evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "\t//evil.example",
        "/\n/evil.example",
        " //evil.example",
        "/a\r\nSet-Cookie: x=1",
        "evil.example",
        "/é",
        "/" + "a" * 5000,
    ],
)
async def test_nobody_is_sent_elsewhere_after_signing_in(tmp_path: Path, target: str) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as browser:
        shown = await browser.get("/sign-in", params={"return_to": target})
        assert shown.status_code == 400
        assert "must be a path of this gateway" in shown.text
        form = {"key": KEY, "return_to": target, "form_token": token_in((await browser.get("/sign-in")).text)}
        answer = await browser.post("/sign-in", data=form, headers=OWN)
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "jackfield" not in browser.cookies


@requirement("ID-attack-login-fixation")
async def test_a_cookie_planted_before_signing_in_is_worth_nothing_after(tmp_path: Path) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as attacker, browser_at(gateway) as victim:
        await sign_in(attacker)
        planted = attacker.cookies["jackfield"]
        victim.cookies.set("jackfield", planted, domain="localhost.local")
        victim.cookies.set("jackfield", planted)
        shown = await victim.get("/sign-in")
        form = {"key": KEY, "form_token": token_in(shown.text)}
        answer = await victim.post("/sign-in", data=form, headers=OWN)
        assert answer.status_code == 303
        fresh = answer.headers["set-cookie"].partition(";")[0]
        assert planted not in fresh
        attacker.cookies.clear()
        old = await attacker.get("/api/login", headers={"cookie": f"jackfield={planted}"})
        assert old.status_code == 401
        new = await attacker.get("/api/login", headers={"cookie": fresh})
        assert new.json()["principal"] == "admin"


@requirement("ID-attack-forged-form")
async def test_a_form_of_another_page_is_refused(tmp_path: Path) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as browser, browser_at(gateway) as other:
        token = token_in((await browser.get("/sign-in")).text)
        foreign = token_in((await other.get("/sign-in")).text)
        fields = {"key": KEY, "return_to": "/"}
        for headers, sent in (
            ({"origin": "https://evil.example"}, token),
            ({"origin": "null"}, token),
            ({"origin": "http://localhost:9999"}, token),
            (OWN, ""),
            (OWN, foreign),
            ({}, "0" * 64),
        ):
            answer = await browser.post("/sign-in", data={**fields, "form_token": sent}, headers=headers)
            assert answer.status_code == 403, (headers, answer.text)
        assert "jackfield" not in browser.cookies
        assert (await browser.post("/sign-in", json=fields, headers=OWN)).status_code == 415


@requirement("ID-attack-framed-sign-in")
async def test_the_page_may_not_be_framed_stored_or_load_anything(tmp_path: Path) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as browser:
        for shown in (await browser.get("/sign-in"), await browser.get("/sign-in?return_to=//x")):
            policy = shown.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "base-uri 'none'" in policy
            assert shown.headers["x-frame-options"] == "DENY"
            assert shown.headers.get_list("referrer-policy") == ["same-origin"]
            assert shown.headers["cache-control"] == "no-store"
        assert (await browser.get("/healthz")).headers.get_list("referrer-policy") == ["no-referrer"]


def test_text_is_escaped_where_it_enters_an_element() -> None:
    made = element("p", "<script>", element("b", "&"), title='"><x', hidden=True, class_=None)
    assert made.markup == '<p title="&quot;&gt;&lt;x" hidden>&lt;script&gt;<b>&amp;</b></p>'


def test_a_form_target_cannot_add_to_the_policy() -> None:
    policy = dict(page_headers(["https://client.example", "x; script-src *", "cursor:"]))[b"content-security-policy"]
    assert b"form-action 'self' https://client.example cursor:;" in policy
    assert b"script-src" not in policy
