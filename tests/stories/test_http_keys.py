"""Who may pass which door: keys, scopes, logins, and the hosts and pages that requests come from."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from jackfield.http.routing import Route
from tests.harness.api import ADMIN_KEY, Api, error_of, open_api
from tests.harness.process import run_cli, running_gateway
from tests.requirement import requirement
from tests.routes import ROUTES

OPEN = {"/", "/icon.svg", "/page.css", "/page.js", "/healthz", "/readyz"}
OPEN |= {"/api/login", "/api/login/ways", "/api/logout"}
ASSETS = "/assets/{file}"
SIGNED = "/api/v1/callbacks/{token}"
"""Open to whoever holds the token; without one there is nothing behind it."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@requirement("CON-key-headers")
@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {ADMIN_KEY}"},
        {"authorization": f"bearer  {ADMIN_KEY}"},
        {"x-api-key": ADMIN_KEY},
        {"X-Secret-Key": ADMIN_KEY},
        {"x-api-key": ADMIN_KEY, "Authorization": f"Bearer {ADMIN_KEY}"},
    ],
)
def test_a_key_is_taken_from_each_of_the_three_headers(api: Api, headers: dict[str, str]) -> None:
    assert api.ask("GET", "/api/v1/tools", key=None, headers=headers).status_code == 200


def test_two_different_keys_in_one_request_are_refused(api: Api) -> None:
    answer = api.ask("GET", "/api/v1/tools", key="reader", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
    assert answer.status_code == 400
    assert "two different keys" in error_of(answer)["message"]


def test_the_same_header_twice_is_refused(api: Api) -> None:
    headers = [("x-api-key", ADMIN_KEY), ("x-api-key", "other")]
    answer = api.client.get("/api/v1/tools", headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")


@requirement("CON-key-open-doors")
@pytest.mark.parametrize("door", ROUTES, ids=lambda door: f"{door.method} {door.path}")
def test_without_a_key_only_health_page_login_and_signed_urls_are_open(api: Api, door: Route) -> None:
    answer = api.ask(door.method, re.sub(r"\{\w+\}", "some", door.path), key=None)
    if door.is_page:  # who may see what, its own tests say; a page sends people to /sign-in
        assert answer.status_code in (200, 303, 400, 401, 403, 404, 415)
    elif door.path == ASSETS:
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    elif door.is_cross_origin:
        assert answer.status_code == 200
    elif door.path in OPEN and (door.method, door.path) != ("GET", "/api/login"):
        assert answer.status_code in (200, 204, 400)
    elif door.path == SIGNED:
        assert (answer.status_code, error_of(answer)["code"]) == (404, "call_not_found")
    else:
        assert answer.status_code == 401
        assert error_of(answer)["code"] == "unauthenticated"
        assert answer.headers["www-authenticate"].startswith("Bearer")


@requirement("CON-key-401-403")
@pytest.mark.parametrize(
    "headers",
    [{"x-api-key": "wrong"}, {"x-api-key": ""}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer"}],
)
def test_a_wrong_key_is_401(api: Api, headers: dict[str, str]) -> None:
    answer = api.ask("GET", "/api/v1/tools", key=None, headers=headers)
    assert (answer.status_code, error_of(answer)["type"]) == (401, "authentication_error")


def test_a_wrong_key_is_401_at_the_open_readiness_route_too(api: Api) -> None:
    assert api.ask("GET", "/readyz", key=None, headers={"x-api-key": "wrong"}).status_code == 401


@requirement("CON-key-401-403")
def test_a_key_without_the_scope_is_403_and_told_which(api: Api) -> None:
    answer = api.execute("echo", key="reader")
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (403, "forbidden")
    assert "lacks the scope 'call'" in error["message"]
    assert "[auth.keys.reader]" in error["message"]


ALLOWED = {
    "admin": {"list", "call", "records", "metrics"},
    "caller": {"list", "call", "records", "metrics"},
    "reader": {"list", "records", "metrics"},
    "answerer": {"records"},
    "server": {"list", "records", "metrics"},
    "ada": {"list", "call", "records", "metrics"},
    "sandbox": set[str](),
}


@requirement("CON-key-scopes")
@pytest.mark.parametrize("name", ALLOWED)
def test_each_scope_opens_what_it_names_and_nothing_more(api: Api, name: str) -> None:
    answers = {
        "list": api.ask("GET", "/api/v1/tools", key=name),
        "call": api.execute("echo", {"value": 1}, key=name),
        "records": api.ask("GET", "/api/v1/calls", key=name),
        "metrics": api.ask("GET", "/metrics", key=name),
    }
    assert {what: answer.status_code for what, answer in answers.items()} == {
        what: 200 if what in ALLOWED[name] else 403 for what in answers
    }


@requirement("CON-key-scopes")
def test_a_tool_servers_key_sees_only_the_tools_it_serves(api: Api) -> None:
    tools = api.ask("GET", "/api/v1/tools", key="server").json()["tools"]
    assert [tool["name"] for tool in tools] == ["echo"]
    assert api.ask("GET", "/api/v1/tools/add", key="server").status_code == 404


@requirement("CON-key-scopes")
def test_an_agents_key_acts_as_that_agent_and_nobody_else(api: Api) -> None:
    as_itself = api.execute("echo", {"value": 1}, key="ada", body={"agent": "ada"})
    assert as_itself.status_code == 200
    record = api.ask("GET", f"/api/v1/calls/{as_itself.json()['call_id']}", key="ada").json()["call"]
    assert (record["agent"], record["principal"]) == ("ada", "ada")
    as_another = api.execute("echo", {"value": 1}, key="ada", body={"agent": "bob"})
    assert (as_another.status_code, error_of(as_another)["code"]) == (403, "forbidden")


@requirement("DISC-future-authentication")
def test_each_key_discovers_only_its_own_tools(api: Api) -> None:
    def names(key: str) -> list[str]:
        return [tool["name"] for tool in api.ask("GET", "/api/v1/tools", key=key).json()["tools"]]

    assert names("limited") == ["add", "echo"]
    assert set(names("caller")) > {"add", "echo", "boom"}
    assert api.ask("GET", "/api/v1/tools/boom", key="limited").status_code == 404
    assert api.execute("boom", key="limited").status_code == 404
    found = api.ask("GET", "/api/v1/tools/search?q=fail", key="limited").json()["tools"]
    assert [tool["name"] for tool in found if tool["name"] == "boom"] == []
    assert api.ask("GET", "/api/v1/tools", key=None).status_code == 401


@requirement("CON-host-origin")
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost:80:80"])
def test_a_foreign_host_is_refused_with_the_setting_that_would_allow_it(api: Api, host: str) -> None:
    answer = api.ask("GET", "/api/v1/tools", headers={"Host": host})
    assert (answer.status_code, error_of(answer)["code"]) == (421, "misdirected")
    assert "allowed_hosts" in error_of(answer)["message"]
    assert api.ask("GET", "/", key=None, headers={"Host": host}).status_code == 421


@requirement("CON-host-origin")
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost.evil.example"])
def test_a_foreign_page_is_refused_even_with_a_key(api: Api, origin: str) -> None:
    answer = api.execute("echo", headers={"Origin": origin})
    assert (answer.status_code, error_of(answer)["code"]) == (403, "forbidden")
    assert "allowed_hosts" in error_of(answer)["message"]
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@requirement("CON-host-origin")
def test_our_own_host_and_pages_are_let_in(api: Api) -> None:
    local = {"Host": f"localhost:{api.gateway.port}", "Origin": f"http://localhost:{api.gateway.port}"}
    assert api.ask("GET", "/api/v1/tools", headers=local).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_come_by_any_host(api: Api, path: str) -> None:
    assert api.ask("GET", path, key=None, headers={"Host": "10.1.2.3"}).status_code == 200


@contextmanager
def log_in(api: Api, key: str) -> Generator[httpx2.Client]:
    """A browser that signed in with that key."""
    with httpx2.Client(base_url=api.gateway.url, timeout=20) as browser:
        assert browser.post("/api/login", headers={"x-api-key": key}).status_code == 200
        yield browser


def test_a_key_becomes_a_cookie_that_is_not_the_key(api: Api) -> None:
    answer = api.client.post("/api/login", headers={"x-api-key": "caller-key"})
    assert answer.json() == {"principal": "caller", "name": "caller", "roles": [], "scopes": ["call"]}
    cookie = answer.headers["set-cookie"]
    api.client.cookies.clear()
    assert re.match(r"jackfield=[\w-]{40,}; ", cookie)
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "caller-key" not in cookie


def test_a_login_has_the_rights_of_its_key(api: Api) -> None:
    own_page = {"Origin": api.gateway.url}
    with log_in(api, "reader-key") as browser:
        assert browser.get("/api/v1/tools").status_code == 200
        assert browser.post("/api/v1/tools/echo/execute", json={}, headers=own_page).status_code == 403
    with log_in(api, "caller-key") as browser:
        assert browser.post("/api/v1/tools/echo/execute", json={}, headers=own_page).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_with_a_cookie_only_the_gateways_own_page_may_change_something(
    api: Api, headers: dict[str, str], status: int
) -> None:
    with log_in(api, "caller-key") as browser:
        answer = browser.post("/api/v1/tools/echo/execute", json={}, headers=headers)
    assert answer.status_code == status


def test_logging_out_makes_the_cookie_worthless(api: Api) -> None:
    with log_in(api, "caller-key") as browser:
        kept = browser.cookies["jackfield"]
        out = browser.post("/api/logout")
        assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
        answer = browser.get("/api/v1/tools", headers={"Cookie": f"jackfield={kept}"})
    assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")


def test_an_invented_cookie_is_401(api: Api) -> None:
    answer = api.ask("GET", "/api/v1/tools", key=None, headers={"Cookie": "jackfield=invented"})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"json": {"code": "invented"}}, 401),
        ({"json": {"code": ""}}, 400),
        ({"json": {"code": 5}}, 400),
        ({"json": {"kode": "x"}}, 400),
        ({}, 400),
        ({"headers": {"x-api-key": "wrong"}}, 401),
    ],
)
def test_a_login_without_a_good_code_or_key_fails(api: Api, sent: dict[str, dict[str, str]], status: int) -> None:
    answer = api.client.post("/api/login", **sent)  # type: ignore[arg-type]
    assert answer.status_code == status
    assert error_of(answer)["message"]


CODE = re.compile(r"(http://127\.0\.0\.1:\d+)/#code=([\w-]+)")


@requirement("CON-key-first-start")
def test_the_first_start_makes_a_key_and_prints_a_link_that_signs_in_once(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as gateway, httpx2.Client(base_url=gateway.url) as browser:
        found = CODE.search(gateway.log)
        assert found is not None
        assert found[1] == gateway.url
        assert str(tmp_path / ".jackfield" / "admin.key") in gateway.log
        assert gateway.key not in gateway.log + gateway.printed
        assert browser.post("/api/login", json={"code": found[2]}).json()["principal"] == "admin"
        assert browser.get("/api/v1/tools").status_code == 200
        assert httpx2.post(f"{gateway.url}/api/login", json={"code": found[2]}).status_code == 401


def test_a_restart_keeps_the_key_and_those_who_are_signed_in(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as gateway:
        signed_in = httpx2.post(f"{gateway.url}/api/login", headers=gateway.headers).cookies["jackfield"]
    with running_gateway(tmp_path) as restarted:
        assert restarted.key == gateway.key
        answer = httpx2.get(f"{restarted.url}/api/v1/tools", headers={"Cookie": f"jackfield={signed_in}"})
        assert answer.status_code == 200


def test_a_login_ends_with_its_key(tmp_path: Path) -> None:
    keys = '[auth.keys.a]\nkey = "a-key"\n[auth.keys.b]\nkey = "b-key"\n'
    env = {"JACKFIELD_ADMIN_KEY": ADMIN_KEY}
    with running_gateway(tmp_path, keys, env=env) as gateway:
        signed_in = httpx2.post(f"{gateway.url}/api/login", headers={"x-api-key": "a-key"}).cookies["jackfield"]
    with running_gateway(tmp_path, '[auth.keys.b]\nkey = "b-key"\n', env=env) as restarted:
        answer = httpx2.get(f"{restarted.url}/api/v1/tools", headers={"Cookie": f"jackfield={signed_in}"})
        assert answer.status_code == 401


@requirement("CON-key-rotation-ends-logins")
def test_a_login_ends_when_its_key_is_changed_whoever_signed_in_with_it(tmp_path: Path) -> None:
    config = '[auth.keys.a]\nkey = "{}"\n[auth.keys.b]\nkey = "b-key"\n'

    def cookie_of(url: str, key: str) -> dict[str, str]:
        return {
            "Cookie": f"jackfield={httpx2.post(f'{url}/api/login', headers={'x-api-key': key}).cookies['jackfield']}"
        }

    def status(url: str, headers: dict[str, str]) -> int:
        return httpx2.get(f"{url}/api/v1/tools", headers=headers).status_code

    with running_gateway(tmp_path, config.format("a-key"), env={"JACKFIELD_ADMIN_KEY": ADMIN_KEY}) as gateway:
        rotated, stays, admin = (cookie_of(gateway.url, key) for key in ("a-key", "b-key", ADMIN_KEY))
        assert [status(gateway.url, cookie) for cookie in (rotated, stays, admin)] == [200, 200, 200]
    env = {"JACKFIELD_ADMIN_KEY": "another-admin-key"}
    with running_gateway(tmp_path, config.format("a-new-key"), env=env) as restarted:
        assert [status(restarted.url, cookie) for cookie in (rotated, stays, admin)] == [401, 200, 401]


@requirement("CON-key-rotation-ends-logins")
def test_the_printed_link_signs_in_for_as_long_as_the_key_it_stands_for(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as gateway:
        found = CODE.search(gateway.log)
        assert found is not None
        signed_in = httpx2.post(f"{gateway.url}/api/login", json={"code": found[2]}).cookies["jackfield"]
    (tmp_path / ".jackfield" / "admin.key").unlink()
    with running_gateway(tmp_path) as restarted:
        answer = httpx2.get(f"{restarted.url}/api/v1/tools", headers={"Cookie": f"jackfield={signed_in}"})
        assert answer.status_code == 401


@requirement("CON-key-admin-file-stays")
def test_a_first_key_in_the_config_leaves_the_administrator_in(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as gateway:
        made = gateway.key
    with running_gateway(tmp_path, '[auth.keys.x]\nkey = "x-key"\n') as restarted:
        for key, scopes in ((made, ["admin"]), ("x-key", ["call"])):
            assert httpx2.get(f"{restarted.url}/api/login", headers={"x-api-key": key}).json()["scopes"] == scopes
        done = run_cli("pending", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


@requirement("SAFE-host-cookie")
def test_behind_https_the_cookie_is_one_that_browsers_guard(tmp_path: Path) -> None:
    with running_gateway(tmp_path, '[server]\npublic_url = "https://gateway.example"\n') as gateway:
        cookie = httpx2.post(f"{gateway.url}/api/login", headers=gateway.headers).headers["set-cookie"]
        assert re.match(r"__Host-jackfield=[\w-]{40,}; Path=/; .*; Secure$", cookie)
        value = cookie.partition(";")[0]
        assert httpx2.get(f"{gateway.url}/api/v1/tools", headers={"Cookie": value}).status_code == 200
        unguarded = {"Cookie": value.removeprefix("__Host-")}
        assert httpx2.get(f"{gateway.url}/api/v1/tools", headers=unguarded).status_code == 401
        out = httpx2.post(f"{gateway.url}/api/logout", headers={"Cookie": value})
        assert out.headers["set-cookie"].startswith("__Host-jackfield=; Path=/; Max-Age=0")
        assert httpx2.get(f"{gateway.url}/api/v1/tools", headers={"Cookie": value}).status_code == 401
