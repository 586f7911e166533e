"""Small pure parts of the doors."""

import pytest
from msgspec import Raw

from jackfield.calls.api import parse_statuses
from jackfield.calls.counters import MOST_CODES, MOST_PRINCIPALS, MOST_SOURCES, MOST_TOOLS, Counters
from jackfield.calls.execute_api import wants_events
from jackfield.errors import STATUS, BadRequest, Refused, Unavailable
from jackfield.gateway.metrics import calls_lines, source_lines
from jackfield.http.hosts import Hosts
from jackfield.http.openapi import error_statuses, openapi_document
from jackfield.http.request import headers_of
from jackfield.http.routing import Route
from jackfield.identity.authentication import key_in, login_cookie, login_in
from jackfield.model.call import Call, CallStatus
from jackfield.model.durations import BUCKETS_MS, Durations
from jackfield.model.text import iso_time
from jackfield.protocol.errors import MethodNotAllowed, http_status
from jackfield.protocol.manifest import etag_matches
from jackfield.settings import ServerSettings
from jackfield.sources.supervisor import SourceState, SourceStatus
from tests.requirement import requirement
from tests.routes import DOCUMENTED, ROUTES


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        (None, False),
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", W/"abc"', True),
        ("*", True),
        ('"ab"', False),
        ("abc", False),
        ("", False),
    ],
)
def test_an_etag_matches_in_a_list_weak_or_strong(header: str | None, *, matches: bool) -> None:
    assert etag_matches(header, '"abc"') is matches


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (999, "1970-01-01T00:00:00.999Z"),
    ],
)
def test_times_are_iso_in_utc_with_milliseconds(milliseconds: int, text: str) -> None:
    assert iso_time(milliseconds) == text


def test_statuses_are_a_list_of_known_words() -> None:
    assert parse_statuses(None) == ()
    assert parse_statuses("running,pending,running") == (CallStatus.RUNNING, CallStatus.PENDING)
    for wrong in ("", "lost", "running,", "running, pending"):
        with pytest.raises(BadRequest, match="is not a call status"):
            parse_statuses(wrong)


def test_headers_that_decide_come_once_and_others_are_joined() -> None:
    assert headers_of([(b"accept", b"a"), (b"accept", b"b"), (b"cookie", b"x=1"), (b"cookie", b"y=2")]) == {
        b"accept": b"a, b",
        b"cookie": b"x=1; y=2",
    }
    with pytest.raises(BadRequest, match="authorization is given twice"):
        headers_of([(b"authorization", b"a"), (b"authorization", b"a")])


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, None),
        ({b"x-api-key": b" k "}, b"k"),
        ({b"authorization": b"BEARER k", b"x-secret-key": b"k"}, b"k"),
    ],
)
def test_the_one_key_of_a_request(headers: dict[bytes, bytes], key: bytes | None) -> None:
    assert key_in(headers) == key


@pytest.mark.parametrize(
    ("cookie", "login"),
    [
        (None, None),
        ("jackfield=abc", "abc"),
        ("a=b; jackfield=abc; c=d", "abc"),
        ("notjackfield=abc", None),
        ("jackfield=", None),
        ("jackfield", None),
    ],
)
def test_the_login_in_a_cookie_header(cookie: str | None, login: str | None) -> None:
    assert login_in(cookie, secure=False) == login
    assert login_in(cookie and cookie.replace("jackfield", "__Host-jackfield"), secure=True) == login
    assert login_in(cookie, secure=True) is None, "on https only the name that browsers guard counts"


def test_a_login_cookie_is_secure_only_over_https() -> None:
    secure = login_cookie("abc", secure=True)
    assert secure.startswith(b"__Host-jackfield=abc; Path=/; ")
    assert secure.endswith(b"; Secure")
    assert b"Domain" not in secure
    assert b"Secure" not in login_cookie("abc", secure=False)
    assert login_cookie(None, secure=False).startswith(b"jackfield=; Path=/; Max-Age=0")


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        (None, False),
        (b"*/*", False),
        (b"application/json", False),
        (b"text/event-stream", True),
        (b"text/event-stream, application/json;q=0.5", True),
        (b"application/json, text/event-stream", False),
    ],
)
def test_events_are_sent_to_those_who_ask_for_them_first(accept: bytes | None, *, streams: bool) -> None:
    assert wants_events(accept) is streams


def test_every_refusal_has_a_status() -> None:
    assert http_status(MethodNotAllowed("no", allowed="GET")) == 405
    assert {http_status(kind("x")) for kind in (BadRequest, Unavailable)} == {400, 503}
    assert all(issubclass(kind, Refused) for kind in STATUS)


@pytest.mark.parametrize("door", DOCUMENTED, ids=lambda door: door.name)
def test_the_document_has_every_status_of_a_route(door: Route) -> None:
    operation = openapi_document(ROUTES)["paths"][door.path][door.method.lower()]
    statuses = {int(status) for status in operation["responses"]}
    assert statuses == set(door.responses) | set(error_statuses(door))
    assert {400, 403, 500} <= statuses
    assert (401 in statuses) is (door.scope is not None or door.takes_key)
    for status in error_statuses(door):
        assert operation["responses"][str(status)]["content"] == {
            "application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}
        }


def test_figures_are_cumulative_in_seconds_and_escaped() -> None:
    counters = Counters()
    for _ in range(3):
        counters.refuse("disabled", principal="ada", tool='to"ol\\', source="s\n")
    durations = counters.durations["t", "s"] = Durations()
    for milliseconds in (1, 7, 999_999):
        durations.add(milliseconds)
    status = SourceStatus(name="s", kind="files", status=SourceState.DOWN, error="x", tools=4, faults=(), calls=0)
    lines = [*calls_lines(counters, shows=lambda _: True, only_for=None), *source_lines([status])]
    assert r'jackfield_calls_total{tool="to\"ol\\",source="s\n",principal="ada",outcome="refused"} 3' in lines
    buckets = [line for line in lines if line.startswith("jackfield_call_duration_seconds_bucket")]
    assert len(buckets) == len(BUCKETS_MS) + 1
    assert buckets[0].endswith('le="0.001"} 1')
    assert buckets[3].endswith('le="0.01"} 2')
    assert buckets[-1].endswith('le="+Inf"} 3')
    assert 'jackfield_source_up{source="s",kind="files"} 0' in lines
    assert 'jackfield_source_tools{source="s",kind="files"} 4' in lines


def test_hosts_remember_only_so_many() -> None:
    hosts = Hosts(ServerSettings())
    for port in range(1000):
        hosts.check_host(b"localhost:%d" % port)
    assert len(hosts._fine) <= 256


@requirement("SAFE-metrics-bounded")
def test_names_that_callers_invent_make_no_labels() -> None:
    counters = Counters()

    def count(tool: str, source: str) -> None:
        settled = Call(
            id="call_1",
            run_id="run_1",
            tool=tool,
            source=source,
            tool_version="1",
            arguments=Raw(b"{}"),
            principal="ada",
            status=CallStatus.COMPLETED,
            duration_ms=1.0,
        )
        counters.count(settled)

    for number in range(10):
        count(f"lent_{number}", "caller")
        count(f"brought_{number}", f"request@{number:024x}")
    assert set(counters.durations) == {("(other)", "caller"), ("(other)", "request")}
    for number in range(MOST_TOOLS + 10):
        count(f"t{number}", "declared")
    for number in range(MOST_SOURCES + 10):
        count("t", f"s{number}")
    assert len(counters.durations) < MOST_TOOLS + MOST_SOURCES + 5
    assert counters.calls["(other)", "declared", "ada", "completed"] == 10
    assert ("(other)", "(other)") in counters.durations
    assert sum(counters.calls.values()) == 20 + MOST_TOOLS + 10 + MOST_SOURCES + 10


@requirement("OPS-METRICS-bounded")
def test_neither_principals_nor_codes_nor_their_combinations_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = Counters()
    for number in range(MOST_PRINCIPALS + 10):
        counters.refuse("tool_not_found", principal=f"user:{number}")
    assert counters.calls["(other)", "(other)", "(other)", "refused"] == 10
    assert counters.refusals == {"tool_not_found": MOST_PRINCIPALS + 10}
    for number in range(MOST_CODES + 10):
        counters.refuse(f"code_{number}", principal="ada")
    assert len(counters.refusals) == MOST_CODES + 1
    monkeypatch.setattr("jackfield.calls.counters.MOST_SERIES", len(counters.calls))
    for number in range(10):
        counters.refuse("rate_limited", principal=f"user:{number}", tool="add", source="local")
    assert counters.calls["add", "local", "(other)", "refused"] == 10
