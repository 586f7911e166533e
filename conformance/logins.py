"""The client scenarios about OAuth: the config that each needs, and the person who logs in when the gateway asks.

Above: `client.py`. The gateway has the scenario's server as a source with `auth`. Whenever that source says
`login_needed`, or a call waits as `pending_login`, a browser opens the link and follows it through the suite's
authorization server; nobody logs in unasked. What the suite sees is judged by the suite.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from bench.processes import KEY, Server
from conformance.browser import Browser, follow

MAX_LOGINS = 8
"""More than the three after which a client has to give up."""
SETTLES_WITHIN = 20.0
FINAL = ("completed", "failed", "rejected", "expired", "cancelled")
METADATA_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client id that the suite's scenario about metadata documents expects."""
CONFIG = """\
[outgoing]
allow = ["127.0.0.0/8", "::1/128"]

[sources.suite]
kind = "mcp"
url = {url}
era = "{era}"
connect_timeout = 30
auth = "{auth}"
"""


class Given(Struct, frozen=True, kw_only=True):
    """What a scenario about OAuth says in the environment."""

    client_id: str | None = None
    client_secret: str | None = None
    private_key: str | None = msgspec.field(default=None, name="private_key_pem")
    signing_algorithm: str | None = None
    workload_token: str | None = msgspec.field(default=None, name="valid_jwt")
    id_token: str | None = msgspec.field(default=None, name="idp_id_token")
    identity_provider: str | None = msgspec.field(default=None, name="idp_issuer")
    idp_client_id: str | None = None


def config_of(scenario: str, given: Given, *, url: str, era: str, home: Path) -> str:
    """`jackfield.toml` for one scenario. Files that it names are written into `home`."""
    client = {
        name: value
        for name in ("client_id", "client_secret", "signing_algorithm")
        if (value := getattr(given, name)) is not None
    }
    oauth: dict[str, Any] = {}
    match scenario.removeprefix("auth/"):
        case "basic-cimd":
            oauth = {"client_id": METADATA_DOCUMENT}
        case "pre-registration":
            oauth = client
        case "client-credentials-basic":
            oauth = {"grant": "client_credentials", **client}
        case "client-credentials-jwt":
            oauth = {"grant": "client_credentials", **client, "private_key": _file(home, "key.pem", given.private_key)}
        case "wif-jwt-bearer":
            oauth = {"grant": "workload", **client, "token_file": _file(home, "workload.jwt", given.workload_token)}
        case "enterprise-managed-authorization":
            token = _file(home, "id.jwt", given.id_token)
            oauth = {"grant": "enterprise", **client, "identity_provider": given.identity_provider, "token_file": token}
        case "dpop" | "dpop-nonce":
            oauth = {"dpop": True}
    auth = "shared" if "grant" in oauth else "user"
    head = CONFIG.format(url=_toml(url), era=era, auth=auth)
    lines = [f"{name} = {_toml(value)}" for name, value in oauth.items()]
    return "\n".join([head, *(["[sources.suite.oauth]", *lines] if lines else []), ""])


def _file(home: Path, name: str, text: str | None) -> str:
    (home / name).write_text(text or "", encoding="utf-8")
    return str(home / name)


def _toml(value: Any) -> str:
    """A string or a flag, as JSON, which is TOML as well."""
    return msgspec.json.encode(value).decode()


class Caller:
    """Somebody with a key and a browser, who uses the source and logs in when asked to."""

    def __init__(self, gateway: Server) -> None:
        self._url = f"http://127.0.0.1:{gateway.port}"
        self._http = httpx2.Client(base_url=self._url, headers={"x-api-key": KEY}, timeout=60)
        self._browser = Browser()
        self._logins = 0
        self._checked_at: int | None = None

    def use(self) -> None:
        """Everything that the source has, once."""
        with self._http, self._browser:
            if self._listed():
                for tool in self._get("/api/v1/tools")["tools"]:
                    self._call(tool["name"])
            print(self._get("/api/v1/sources"))

    def _listed(self) -> bool:
        """Log in until the source offers its tools. False: it never does."""
        while (status := self._settled()) == "login_needed":
            answer = self._http.post("/api/v1/connections/suite", json={})
            print(f"a login: {answer.status_code} {answer.text}")
            if answer.is_error or not self._log_in(answer.json()["login_url"]):
                return False
        print(f"the source is {status}")
        return status == "up"

    def _settled(self) -> str:
        """The source's status when it was tried; after a login, when it was tried again."""

        def status() -> str | None:
            source = self._source()
            is_tried = source["status"] != "starting" and source["checked_at"] != self._checked_at
            return str(source["status"]) if is_tried else None

        found = _within(SETTLES_WITHIN, status)
        self._checked_at = self._source()["checked_at"]
        return found or str(self._source()["status"])

    def _source(self) -> dict[str, Any]:
        sources: list[dict[str, Any]] = self._get("/api/v1/sources")["sources"]
        return next(each for each in sources if each["name"] == "suite")

    def _call(self, tool: str) -> None:
        """A call to its end, with the logins that it waits for."""
        call = self._http.post(f"/api/v1/tools/{tool}/execute", json={"arguments": {}}).json()
        print(f"a call: {call}")
        while call.get("status") == "pending_login":
            waited = call
            if not self._log_in(call["login_url"]):
                return

            def moved_on(before: dict[str, Any] = waited) -> dict[str, Any] | None:
                now: dict[str, Any] = self._get(f"/api/v1/calls/{before['call_id']}")["call"]
                return now if now["status"] in FINAL or now.get("login_url") != before["login_url"] else None

            call = _within(SETTLES_WITHIN, moved_on) or {}
            print(f"the call is now {call}")

    def _log_in(self, url: str) -> bool:
        """Whether the gateway was content with what came back."""
        self._logins += 1
        if self._logins > MAX_LOGINS:
            print("The gateway asks for logins without end.")
            return False
        page = follow(self._browser, url, {"key": KEY})
        said = page.text.partition("<main>")[2]
        print(f"login {self._logins} ended at {page.url} with {page.status}: {said}")
        return not page.is_fault

    def _get(self, path: str) -> Any:
        return self._http.get(path).json()


def _within(seconds: float, ask: Callable[[], Any]) -> Any:
    """What `ask` says as soon as it says something, else None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (answer := ask()) is not None:
            return answer
        time.sleep(0.05)
    return None
