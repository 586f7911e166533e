"""`jackfield runs`: cycles of agents and responses, and one in detail."""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jackfield.cli.history import list_lines as call_table
from jackfield.cli.options import GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import (
    compact,
    escape,
    first_line,
    json_lines,
    local_datetime,
    print_either,
    style,
    table,
    timestamp,
)
from jackfield.cli.output import milliseconds as short_time
from jackfield.cli.paging import PAGING, print_more, read_pages
from jackfield.cli.target import connect
from jackfield.sdk import RunInfo, RunStep

PAGE_SIZE = 200
_COLORS = {"completed": "green", "failed": "red", "cancelled": "yellow", "incomplete": "yellow"}
_KINDS = {"cycle": "cycle of an agent", "response": "response", "calls": "calls under one run id"}


@command(
    """\
List the runs that your key may see, newest first: cycles of agents, and responses. With ID, show one: what woke it,
each step of its model, its calls. The run id of any call works.""",
    argument("id", nargs="?", metavar="ID", help="show this run"),
    argument("--agent", metavar="NAME", help="only cycles of this agent"),
    *PAGING,
    JSON,
    *GATEWAY,
    examples="""\
  jackfield runs
  jackfield runs --agent concierge --limit 10
  jackfield runs cycle_019a2b3c4d5e
  jackfield runs --json | jq -r '.runs[] | select(.status == "failed") | .id'""",
)
async def runs(options: Namespace) -> int:
    if options.id is not None:
        return await _print_run(options)
    async with connect(options) as client:

        async def read(limit: int, cursor: str | None) -> tuple[Sequence[RunInfo], str | None]:
            page = await client.runs.list(agent=options.agent, limit=limit, cursor=cursor)
            return page.runs, page.next_cursor

        found, cursor = await read_pages(options, read, page_size=PAGE_SIZE)
    print_either(options, {"runs": found, "next_cursor": cursor}, list_lines(found))
    print_more(options, cursor)
    return 0


async def _print_run(options: Namespace) -> int:
    given = next((f"--{name}" for name in ("agent", "limit", "cursor", "all") if getattr(options, name)), None)
    if given is not None:
        raise UsageError(f"{given} is for the list of runs, not for one. Remove it or the id.")
    async with connect(options) as client:
        run = await client.runs.get(options.id)
    print_either(options, {"run": run}, run_lines(run))
    return 0


def list_lines(found: Sequence[RunInfo]) -> list[str]:
    """Id, kind, status, agent, start, duration, tokens, summary."""
    if not found:
        return ["No runs."]
    rows = [
        (
            run.id,
            run.kind,
            style(run.status, _COLORS.get(run.status, "cyan")),
            escape(run.agent_entity_id or "-"),
            local_datetime(run.created_at),
            took(run) or "-",
            _tokens(run.input_tokens, run.output_tokens) or "-",
            first_line(run.reason or run.summary or ""),
        )
        for run in found
    ]
    header = ("ID", "KIND", "STATUS", "AGENT", "STARTED", "TOOK", "TOKENS", "SUMMARY")
    return table(rows, header=header, styles=("bold", "", "", "", "dim", "dim", "dim"))


def took(run: RunInfo) -> str:
    start, end = timestamp(run.created_at), timestamp(run.finished_at)
    return "" if start is None or end is None else short_time((end - start).total_seconds() * 1000)


def _tokens(taken: int | None, made: int | None) -> str:
    return "" if taken is None and made is None else f"{(taken or 0) + (made or 0):,}"


def run_lines(run: RunInfo) -> Iterator[str]:
    """One run in detail."""
    yield f"{style(run.id, 'bold')}  {_KINDS.get(run.kind, escape(run.kind))}"
    yield ""
    yield from table(list(_facts(run)), styles=("dim",))
    if run.events:
        yield ""
        yield style("events", "bold")
        rows = [(local_datetime(event.timestamp), escape(event.type), _said(event.data)) for event in run.events]
        yield from table(rows, styles=("dim",), indent="  ")
    for step in run.steps:
        yield ""
        yield from _step_lines(step)
    if run.response is not None:
        yield from _response_lines(run.response)
    if run.calls:
        yield ""
        yield from call_table(run.calls)


def _facts(run: RunInfo) -> Iterator[tuple[str, str]]:
    yield "status", style(run.status, _COLORS.get(run.status, "cyan"))
    if run.agent_entity_id:
        number = f", cycle {run.cycle_number}" if run.cycle_number is not None else ""
        yield "agent", f"{escape(run.agent_entity_id)}{number}"
    yield "started", local_datetime(run.created_at)
    if duration := took(run):
        yield "took", duration
    if tokens := _tokens(run.input_tokens, run.output_tokens):
        yield "tokens", tokens
    if run.reason:
        yield "reason", first_line(run.reason)
    if run.summary:
        yield "summary", first_line(run.summary)


def _said(data: Mapping[str, Any]) -> str:
    """What an event says: a message with its sender, anything else as JSON."""
    content = data.get("content")
    return (
        f"{first_line(str(data.get('senderName', '')))}: {first_line(content)}"
        if isinstance(content, str)
        else compact(data)
    )


def _step_lines(step: RunStep) -> Iterator[str]:
    usage = step.usage or {}
    tokens = _tokens(usage.get("input_tokens"), usage.get("output_tokens"))
    yield style(f"step {step.n}", "bold") + (f"  {tokens} tokens" if tokens else "")
    for text in _texts(step.items):
        yield from json_lines(text)
    rows = [
        (call.id, call.status, escape(call.tool), short_time(call.execution_time_ms) or "-", compact(call.arguments))
        for call in step.calls
    ]
    yield from table(rows, styles=("", "cyan", "bold", "dim"), indent="  ")


def _response_lines(response: Mapping[str, Any]) -> Iterator[str]:
    texts = list(_texts(response.get("output") or ()))
    error = response.get("error")
    if isinstance(error, dict):
        texts.append(f"{error.get('code')}: {error.get('message')}")
    if texts:
        yield ""
        yield style("output", "bold")
    for text in texts:
        yield from json_lines(text)


def _texts(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the model wrote; its calls are shown by their records."""
    for item in items:
        if item.get("type") != "message" or not isinstance(item.get("content"), list | str):
            continue
        content = item["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        yield from (part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
