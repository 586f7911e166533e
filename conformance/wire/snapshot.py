"""Writes down what a gateway answers, without what differs from run to run: ids, times, ports, tokens."""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from conformance.wire.project import KEYS

HEADERS = (
    *("content-type", "cache-control", "vary", "www-authenticate", "retry-after", "allow", "location"),
    *("mcp-session-id", "x-call-id", "x-content-type-options", "content-security-policy", "referrer-policy"),
)
STREAM_SECONDS = 15.0
ANSWER_SECONDS = 5.0
LONG_TEXT = 2000
EARLIEST_MOMENT = 1_600_000_000
"""A number that is larger is a time."""
REPLACED = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"(/callbacks/|/answer/)[\w.\-~=]+"), r"\1<token>"),
    (re.compile(r"\b([a-z]{2,12}(?:_[a-z]+)*)_[0-9a-f]{16,}"), r"\1_<id>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"/tmp/[^\s\"']+"), "<path>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds?|milliseconds?)\b(?= (ago|later))"), "<duration>"),
)
VARYING = frozenset(
    {"execution_time_ms", "duration_ms", "took_ms", "tookMs", "token", "socket", "since", "pid", "rss", "uptime"}
    | {
        "retry_after",
        "idle_seconds",
        "memory_mb",
        "cpu_seconds",
        "etag",
        "next_cursor",
        "obfuscation",
        "gateway",
        "startedMs",
    }
)


def normal(value: Any, key: str = "") -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {normal_text(name): normal(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if key == "deadline" or (key in VARYING and value is not None and not isinstance(value, bool)):
        return f"<{key}>"  # of the deadline not even whether there is one: only a call that took a moment has it
    if isinstance(value, str):
        return normal_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value > EARLIEST_MOMENT:
        return "<moment>"
    return value


def shape(value: Any) -> Any:
    """The fields and types of a value; of a list the fields and types that entries have, however many there are."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        fields = sorted({name for inner in value if isinstance(inner, dict) for name in inner})
        return fields or sorted({type(inner).__name__ for inner in value})
    return type(value).__name__


def normal_text(text: str) -> str:
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text


class Snapshot:
    """All that was asked and answered, by the name of the request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.taken: dict[str, Any] = {}
        self._client = httpx2.Client(base_url=url, timeout=ANSWER_SECONDS)

    def close(self) -> None:
        self._client.close()

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = "admin",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        shape_only: bool = False,
    ) -> Any:
        """One request; its answer is written down and returned as it came."""
        given = {**_key(key), **(headers or {})}
        more: dict[str, Any] = (
            {"content": content} if content is not None else {"json": body} if body is not None else {}
        )
        try:
            with self._client.stream(method, path, headers=given, **more) as answer:
                content, is_whole = _read(answer)
        except httpx2.ReadTimeout:
            self.keep(name, {"request": f"{method} {normal_text(path)}", "open": True})
            return None
        value = _parsed(answer, content)
        written = {"status": answer.status_code, "headers": _headers(answer), "body": _written(value, answer)}
        if shape_only and answer.is_success:
            written["body"] = shape(written["body"])
        self.keep(name, {"request": f"{method} {normal_text(path)}", **written, **({} if is_whole else {"open": True})})
        return value

    def stream(
        self,
        name: str,
        path: str,
        *,
        until: Callable[[str, Any], bool],
        method: str = "GET",
        body: Any = None,
        act: Callable[[], Any] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = "admin",
    ) -> list[tuple[str, Any]]:
        """Follow a stream of events until one fits; `act` is done once it is open."""
        seen: list[tuple[str, Any]] = []
        given = {"accept": "text/event-stream", **_key(key), **(headers or {})}
        more = {} if body is None else {"json": body}
        head: dict[str, Any] = {}

        def read() -> None:
            try:
                with self._client.stream(method, path, headers=given, timeout=STREAM_SECONDS, **more) as answer:
                    head.update(status=answer.status_code, headers=_headers(answer))
                    _follow(answer, seen, opened, until)
            except (httpx2.TransportError, httpx2.StreamError) as fault:
                head["broke"] = type(fault).__name__
            finally:
                opened.set()

        opened = threading.Event()
        thread = threading.Thread(target=read)
        thread.start()
        opened.wait(STREAM_SECONDS)
        if act is not None:
            act()
        thread.join(STREAM_SECONDS + 5)
        events = [{"event": event, "data": normal(data)} for event, data in seen]
        self.keep(name, {"request": f"{method} {normal_text(path)}", **head, "events": _joined(events)})
        return seen

    def keep(self, name: str, what: Any) -> None:
        if name in self.taken:
            raise ValueError(f"Two requests have the name {name!r}.")
        self.taken[name] = what


def _key(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {KEYS.get(key, key)}"}


def _headers(answer: httpx2.Response) -> dict[str, str]:
    found = {name: normal_text(answer.headers[name]) for name in HEADERS if name in answer.headers}
    return found | ({"mcp-session-id": "<id>"} if "mcp-session-id" in found else {})


def _read(answer: httpx2.Response) -> tuple[bytes, bool]:
    """What comes within a few seconds, and whether that was all."""
    content, end = b"", time.monotonic() + ANSWER_SECONDS
    try:
        for piece in answer.iter_bytes():
            content += piece
            if time.monotonic() > end:
                return content, False
    except httpx2.ReadTimeout:
        return content, False
    return content, True


def _written(body: Any, answer: httpx2.Response) -> Any:
    if isinstance(body, str) and answer.headers.get("content-type", "").startswith("text/event-stream"):
        return [{"event": event, "data": normal(data)} for event, data in events_in(body)]
    if answer.headers.get("content-type", "").startswith("text/html"):
        return "<page>"
    if isinstance(body, str):
        return "<long text>" if len(body) > LONG_TEXT else normal_text(body)
    return normal(body)


def _parsed(answer: httpx2.Response, content: bytes) -> Any:
    text = content.decode()
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    try:
        return json.loads(text) if is_json else text
    except ValueError:
        return text


def events_in(text: str) -> list[tuple[str, Any]]:
    """The events of a whole stream."""
    return [parsed for block in text.split("\n\n") if (parsed := _event(block.split("\n"))) is not None]


def _follow(
    answer: httpx2.Response, seen: list[tuple[str, Any]], opened: threading.Event, until: Callable[[str, Any], bool]
) -> None:
    lines: list[str] = []
    end = time.monotonic() + STREAM_SECONDS
    for line in answer.iter_lines():
        if time.monotonic() > end:
            return
        if line:
            lines.append(line)
            continue
        event, lines = _event(lines), []
        opened.set()
        if event is not None:
            seen.append(event)
            if until(*event):
                return


def _event(lines: list[str]) -> tuple[str, Any] | None:
    name, data, has_id = "message", [], ""
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            has_id = " (with id)"
    if not data:
        return None
    text = "\n".join(data)
    try:
        return name + has_id, json.loads(text)
    except ValueError:
        return name + has_id, text


def _joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pieces of a text come as the clock makes them: their shapes, after all other events."""
    pieces = [event for event in events if "streaming" in _kind(event)]
    others = [event for event in events if "streaming" not in _kind(event)]
    kinds = {_kind(piece): {"event": piece["event"], "data": shape(piece["data"])} for piece in pieces}
    return [*others, *({"piece of": kind, **kinds[kind]} for kind in sorted(kinds))]


def _kind(event: dict[str, Any]) -> str:
    data = event["data"]
    return f"{event['event']} {data.get('type', '') if isinstance(data, dict) else ''}"
