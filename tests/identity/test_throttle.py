"""Wrong keys are throttled by address, and nobody who works there suffers."""

import secrets
from pathlib import Path

import pytest

from jackfield.errors import RateLimited
from jackfield.identity import authentication as throttle
from jackfield.identity.authentication import BURST, KEPT, MOST, Throttle
from jackfield.model.principal import Principal
from tests.clock import Clock
from tests.harness.api import error_of
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement

ADA = Principal(name="ada", scopes=frozenset({"call"}))
BOB = Principal(name="bob", scopes=frozenset({"call"}))


def exhaust(throttle: Throttle, address: str) -> None:
    for number in range(BURST):
        throttle.check(address, f"guess {number}", None)


@requirement("SAFE-wrong-keys-throttled")
def test_after_a_burst_an_address_has_one_try_a_second() -> None:
    clock = Clock(100.0)
    throttle = Throttle(clock=clock)
    exhaust(throttle, "192.0.2.1")
    with pytest.raises(RateLimited) as limited:
        throttle.check("192.0.2.1", "another", None)
    assert 0 < limited.value.retry_after <= 1
    throttle.check("192.0.2.2", "another", None)
    clock.now += limited.value.retry_after
    throttle.check("192.0.2.1", "another", None)
    with pytest.raises(RateLimited):
        throttle.check("192.0.2.1", "one more", None)


@requirement("SAFE-wrong-keys-throttled")
def test_a_guesser_does_not_see_that_a_key_is_right_and_who_was_there_before_goes_on() -> None:
    clock = Clock(100.0)
    throttle = Throttle(clock=clock)
    throttle.check("192.0.2.1", "a", ADA)
    exhaust(throttle, "192.0.2.1")
    throttle.check("192.0.2.1", "a", ADA)
    with pytest.raises(RateLimited):
        throttle.check("192.0.2.1", "b", BOB)
    throttle.check("192.0.2.9", "b", BOB)
    clock.now += 1
    throttle.check("192.0.2.1", "b", BOB)


@requirement("SAFE-wrong-keys-throttled")
def test_a_key_that_nobody_finds_by_trying_is_let_in_whoever_guesses_at_its_address() -> None:
    throttle = Throttle(clock=Clock(100.0))
    exhaust(throttle, "192.0.2.1")
    throttle.check("192.0.2.1", f"jf_{secrets.token_urlsafe(32)}", BOB)
    with pytest.raises(RateLimited):
        throttle.check("192.0.2.1", secrets.token_urlsafe(32), None)


def test_a_program_with_an_old_key_is_made_to_wait_alone() -> None:
    throttle = Throttle(clock=Clock(100.0))
    for _ in range(BURST + 1):
        throttle.check("192.0.2.1", "old", None)
    with pytest.raises(RateLimited):
        throttle.check("192.0.2.1", "old", None)
    throttle.check("192.0.2.1", "b", BOB)
    throttle.check("192.0.2.1", "old", None)


def test_a_network_of_ipv6_is_one_address() -> None:
    throttle = Throttle(clock=Clock(100.0))
    for number in range(BURST):
        throttle.check(f"2001:db8::{number:x}", f"guess {number}", None)
    with pytest.raises(RateLimited):
        throttle.check("2001:db8::ffff", "another", None)
    throttle.check("2001:db8:0:1::1", "another", None)


@requirement("SAFE-wrong-keys-throttled")
def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MOST", 3)
    bounded = Throttle(clock=Clock(100.0))
    for number in range(10):
        bounded.check(f"192.0.2.{number}", "wrong", None)
        bounded.check(f"192.0.2.{number}", "a", ADA)
    exhaust(bounded, "192.0.2.99")
    assert len(bounded._addresses) == len(bounded._known) == 3
    assert len(bounded._addresses["192.0.2.99"].wrong) == KEPT
    assert MOST > 3


@requirement("SAFE-wrong-keys-throttled")
async def test_every_route_answers_429_with_retry_after(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (_, client):
        assert (await client.get("/api/v1/tools")).status_code == 200
        for number in range(BURST):
            wrong = {"x-api-key": f"guess {number}"}
            assert (await client.get("/api/v1/tools", headers=wrong)).status_code == 401
        wrong = {"x-api-key": "one more"}
        for method, path in (("GET", "/api/v1/tools"), ("POST", "/api/login"), ("GET", "/readyz"), ("POST", "/mcp")):
            answer = await client.request(method, path, headers=wrong)
            assert (answer.status_code, error_of(answer)["code"]) == (429, "rate_limited")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await client.get("/api/v1/tools")).status_code == 200, "its key was used from here before"
