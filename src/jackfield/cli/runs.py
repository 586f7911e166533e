"""`jackfield runs`: agents' cycles, responses, programs and sessions; one in detail, followed, cancelled, resumed."""

import asyncio
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
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
    print_json_line,
    style,
    table,
    timestamp,
)
from jackfield.cli.output import milliseconds as short_time
from jackfield.cli.paging import PAGING, print_more, read_pages
from jackfield.cli.target import connect
from jackfield.cli.times import moment_in
from jackfield.sdk import Client, RunCall, RunEvent, RunInfo, RunStep

PAGE_SIZE = 200
ACTIONS = ("follow", "cancel", "resume")
LIST, SHOW = "list", "show"
"""What may be said, and goes without saying."""
FAILED = 1
_FILTERS = ("kind", "status", "agent", "principal", "since", "until")
_COLORS = {"completed": "green", "failed": "red", "interrupted": "red", "cancelled": "yellow", "incomplete": "yellow"}
_KINDS = {
    "cycle": "cycle of an agent",
    "response": "response",
    "program": "program",
    "session": "session",
    "calls": "calls under one run id",
}
_STATUSES = ("queued", "running", "parked", "completed", "incomplete", "failed", "cancelled", "interrupted")


@command(
    """\
List the runs that your key may see, newest first: cycles of agents, responses, programs and sessions. With ID, show
one: what it was asked for, each step of its model with its time and tokens, its calls. The run id of any call works.

'follow' shows a run's steps and calls as they happen and ends with the run; 'cancel' ends a run; 'resume' goes on with
one that failed or was interrupted.

exit codes of follow: 0 the run completed, 1 it did not""",
    argument(
        "word",
        nargs="?",
        metavar="ID|ACTION",
        help="show this run, or: list, show, follow, cancel, resume",
        completes=(LIST, SHOW, *ACTIONS),
    ),
    argument("id", nargs="?", metavar="ID", help="the run to show, follow, cancel or resume"),
    argument("--follow", action="store_true", help="with an ID: follow the run to its end"),
    argument("--messages", action="store_true", help="with an ID: what the model was sent in each step, too"),
    argument("--kind", choices=("cycle", "response", "program", "session"), help="only runs of this kind"),
    argument("--status", choices=_STATUSES, help="only runs in this status"),
    argument("--agent", metavar="NAME", help="only runs of this agent"),
    argument("--principal", metavar="NAME", help="only runs in this name: a key, user:ID or agent:NAME"),
    argument("--since", metavar="TIME", type=moment_in, help="begun then or later: ISO 8601, or 30m, 12h, 7d ago"),
    argument("--until", metavar="TIME", type=moment_in, help="begun before then: ISO 8601, or 30m, 12h, 7d ago"),
    *PAGING,
    JSON,
    *GATEWAY,
    examples="""\
  jackfield runs
  jackfield runs --kind response --status parked
  jackfield runs --agent concierge --limit 10
  jackfield runs cycle_019a2b3c4d5e
  jackfield runs follow resp_019a2b3c4d5e
  jackfield runs cancel cycle_019a2b3c4d5e
  jackfield runs --json | jq -r '.runs[] | select(.status == "failed") | .id'""",
)
async def runs(options: Namespace) -> int:
    action, run_id = _asked(options)
    if run_id is None:
        return await _print_list(options)
    async with connect(options) as client:
        if action == "follow":
            return await _follow(client, run_id, options)
        if action == "cancel":
            run = await client.runs.cancel(run_id)
        elif action == "resume":
            run = await client.runs.resume(run_id)
        else:
            run = await client.runs.get(run_id, messages=options.messages)
    lines = run_lines(run) if action is None else iter([_said_of(run)])
    print_either(options, {"run": run}, lines)
    return 0


def _asked(options: Namespace) -> tuple[str | None, str | None]:
    """The action, and the run it is for; no run: the list."""
    action = options.word if options.word in ACTIONS else "follow" if options.follow else None
    needs_run = options.word in (SHOW, *ACTIONS)
    run_id = options.id if needs_run or options.word == LIST else options.word
    if needs_run and options.id is None:
        raise UsageError(f"Which run is it? jackfield runs {options.word} ID; 'jackfield runs' lists them.")
    if options.word == LIST and options.id is not None:
        raise UsageError(f"'list' lists all runs. To see one: jackfield runs {options.id}.")
    if not needs_run and options.id is not None:
        raise UsageError(f"There is no action '{options.word}'. Known: {', '.join((LIST, SHOW, *ACTIONS))}.")
    if options.follow and options.word in ("cancel", "resume"):
        raise UsageError(f"--follow does not go with '{options.word}'. Use: jackfield runs follow {run_id}.")
    if options.messages and (run_id is None or action is not None):
        raise UsageError("--messages is for one run: jackfield runs ID --messages.")
    if run_id is None:
        if options.follow:
            raise UsageError("Which run is to be followed? jackfield runs follow ID; 'jackfield tail' follows calls.")
        return None, None
    given = next((f"--{name}" for name in (*_FILTERS, "limit", "cursor", "all") if getattr(options, name)), None)
    if given is not None:
        raise UsageError(f"{given} is for the list of runs, not for one. Remove it or the id.")
    return action, run_id


async def _print_list(options: Namespace) -> int:
    filters = {name: getattr(options, name) for name in _FILTERS}
    async with connect(options) as client:

        async def read(limit: int, cursor: str | None) -> tuple[Sequence[RunInfo], str | None]:
            page = await client.runs.list(**filters, limit=limit, cursor=cursor)
            return page.runs, page.next_cursor

        found, cursor = await read_pages(options, read, page_size=PAGE_SIZE)
    print_either(options, {"runs": found, "next_cursor": cursor}, list_lines(found))
    print_more(options, cursor)
    return 0


async def _follow(client: Client, run_id: str, options: Namespace) -> int:
    """Steps and calls as they happen, to the run's end."""
    status = None
    with suppress(asyncio.CancelledError):
        async with aclosing(client.runs.stream(run_id)) as events:
            async for event in events:
                status = event.status if event.is_end else None
                if options.json:
                    print_json_line(event)
                elif line := event_line(event):
                    print(line, flush=True)
    return 0 if status == "completed" else FAILED


def event_line(event: RunEvent) -> str:
    """`send_invoice  done  {"ok":true}`; nothing for what says nothing new."""
    kind = event.type
    if kind == "step.done" and event.step is not None:
        return _step_line(event.step)
    if kind in ("tool.ready", "tool.done", "tool.error"):
        word = {"tool.ready": "called", "tool.done": "done", "tool.error": event.status or "failed"}[kind]
        color = {"tool.ready": "cyan", "tool.done": "green"}.get(kind, "red")
        told = compact(event.args) if kind == "tool.ready" else event.error or compact(event.result)
        words = (style(word.ljust(9), color), style(escape(event.tool_name or ""), "bold"), first_line(told))
        return f"  {'  '.join(word for word in words if word)}  {style(escape(event.stream_id or ''), 'dim')}"
    if kind in ("run.parked", "run.resumed"):
        return style("parked: it waits for somebody" if kind == "run.parked" else "goes on", "yellow")
    if event.is_end:
        status = event.status or kind.removeprefix("run.")
        error = f": {first_line(event.error)}" if event.error else ""
        return f"{style(status, _COLORS.get(status, 'cyan'))}{error}"
    return ""


def _step_line(step: RunStep) -> str:
    texts = " ".join(first_line(text) for text in _texts(step.items))
    took_ms = f"  {short_time(float(step.model_ms))}" if step.model_ms is not None else ""
    tokens = _tokens(step.input_tokens, step.output_tokens)
    return f"{style(f'step {step.n}', 'bold')}{took_ms}{f'  {tokens} tokens' if tokens else ''}  {texts}".rstrip()


def _said_of(run: RunInfo) -> str:
    return f"{escape(run.id)} is {style(run.status, _COLORS.get(run.status, 'cyan'))}."


def list_lines(found: Sequence[RunInfo]) -> list[str]:
    """Id, kind, status, caller, start, duration, tokens, summary."""
    if not found:
        return ["No runs."]
    rows = [
        (
            run.id,
            run.kind,
            style(run.status, _COLORS.get(run.status, "cyan")),
            escape(run.agent_entity_id or run.principal or "-"),
            local_datetime(run.created_at),
            took(run) or "-",
            _tokens(run.input_tokens, run.output_tokens) or "-",
            first_line(run.reason or run.summary or ""),
        )
        for run in found
    ]
    header = ("ID", "KIND", "STATUS", "CALLER", "STARTED", "TOOK", "TOKENS", "SUMMARY")
    return table(rows, header=header, styles=("bold", "", "", "", "dim", "dim", "dim"))


def took(run: RunInfo) -> str:
    start, end = timestamp(run.created_at), timestamp(run.finished_at)
    return "" if start is None or end is None else short_time((end - start).total_seconds() * 1000)


def _tokens(taken: int | None, made: int | None) -> str:
    return "" if taken is None and made is None else f"{(taken or 0) + (made or 0):,}"


def run_lines(run: RunInfo) -> Iterator[str]:
    """One run in detail."""
    yield f"{style(escape(run.id), 'bold')}  {_KINDS.get(run.kind, escape(run.kind))}"
    yield ""
    yield from table(list(_facts(run)), styles=("dim",))
    if run.kind == "program" and isinstance(run.input, dict):
        yield from _section("code", str(run.input.get("code", "")))
    if run.events:
        yield ""
        yield style("events", "bold")
        rows = [(local_datetime(event.timestamp), escape(event.type), _said(event.data)) for event in run.events]
        yield from table(rows, styles=("dim",), indent="  ")
    for step in run.steps:
        yield ""
        yield from _step_lines(step)
    if run.log:
        yield from _section("log", run.log)
    if run.result is not None:
        yield from _section("result", run.result)
    if run.error is not None and run.response is None:
        yield from _section("error", f"{run.error.code}: {run.error.message}")
    if run.response is not None:
        yield from _response_lines(run.response)
    if run.calls:
        yield ""
        yield from call_table(run.calls)


def _section(title: str, value: object) -> Iterator[str]:
    yield ""
    yield style(title, "bold")
    yield from json_lines(value)


def _facts(run: RunInfo) -> Iterator[tuple[str, str]]:
    yield "status", style(run.status, _COLORS.get(run.status, "cyan"))
    if run.agent_entity_id:
        number = f", cycle {run.cycle_number}" if run.cycle_number is not None else ""
        yield "agent", f"{escape(run.agent_entity_id)}{number}"
    elif run.principal:
        yield "key", escape(run.principal)
    if run.model:
        yield "model", escape(run.model)
    yield "started", local_datetime(run.created_at)
    if run.parked_since:
        yield "parked", f"since {local_datetime(run.parked_since)}"
    if duration := took(run):
        yield "took", f"{duration}{_of_model(run)}"
    if tokens := _tokens(run.input_tokens, run.output_tokens):
        cached = f", {run.cached_tokens:,} of them cached" if run.cached_tokens else ""
        yield "tokens", f"{tokens} ({run.input_tokens or 0:,} in, {run.output_tokens or 0:,} out{cached})"
    if run.cost is not None:
        yield "cost", f"{run.cost:.6g}"
    yield from _links(run)
    if run.reason:
        yield "reason", first_line(run.reason)
    if run.summary:
        yield "summary", first_line(run.summary)


def _links(run: RunInfo) -> Iterator[tuple[str, str]]:
    """What it waits for, what started it, and what it started."""
    if run.parent is not None:
        yield "carries out", escape(run.parent.call_id)
    for one in run.waits_for:
        yield "waits for", f"{escape(one.tool)} {escape(one.call_id)} ({escape(one.status.replace('_', ' '))})"
    for child in run.children:
        yield "program", escape(child.id or "")


def _of_model(run: RunInfo) -> str:
    return f", its model {short_time(float(run.model_ms))}" if run.model_ms else ""


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
    took_ms = f"  {short_time(float(step.model_ms))}" if step.model_ms is not None else ""
    yield style(f"step {step.n}", "bold") + took_ms + (f"  {tokens} tokens" if tokens else "")
    if step.messages is not None:
        if step.messages.instructions:
            yield style("  instructions", "dim")
            yield from json_lines(step.messages.instructions)
        for item in step.messages.sent:
            yield f"  {style('sent', 'dim')} {compact(item)}"
    if step.error is not None:
        yield f"  {style('error', 'red')} {escape(step.error.code)}: {first_line(step.error.message)}"
    for text in _texts(step.items):
        yield from json_lines(text)
    for ask in step.asks:
        if ask.get("failed"):
            yield f"  {style('not called', 'red')} {escape(str(ask.get('tool')))}: {compact(ask['failed'])}"
    yield from table([_call_row(call) for call in step.calls], styles=("", "cyan", "bold", "dim"), indent="  ")


def _call_row(call: RunCall) -> tuple[str, str, str, str, str]:
    took_ms = short_time(call.execution_time_ms) or "-"
    return escape(call.id), escape(call.status), escape(call.tool), took_ms, compact(call.arguments)


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
