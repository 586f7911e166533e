"""`jackfield sources`, `accept` and `logs`: where tools come from, changed definitions, worker logs."""

import asyncio
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jackfield.cli import source_changes
from jackfield.cli.options import CONFIG, GATEWAY, JSON, YES, UsageError, argument, command
from jackfield.cli.output import (
    confirm,
    escape,
    local_time,
    print_diff,
    print_either,
    print_json,
    print_json_line,
    style,
    table,
)
from jackfield.cli.target import connect
from jackfield.model.text import counted
from jackfield.sdk import Client, DefinitionDiff, ToolNotFound
from jackfield.sdk.sources import SourceInfo, WorkerInfo, WorkerLine
from jackfield.sdk.types import ScenarioState

POLL_SECONDS = 0.5
MAX_LINES = 1000
FAILED_AT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z ")
"""What a request that failed begins with, where a source without a process says what went wrong."""


@command(
    """\
List the tool sources: status, number of tools, when last checked, error. With a NAME, show that source in detail.

'add' makes a source while the gateway runs, 'edit' changes some of its fields, 'remove' forgets it; 'test' connects and
lists what it offers, and keeps nothing; 'restart' closes and opens it. All of these reach every gateway of the database
and need an admin key. Fields are those of [sources.NAME] in the config: key=value, key:=JSON, table.key=value, or
--file. Sources of the config are changed there.

exit codes: 0 all are up, 1 one of them is down, faulty or needs a login""",
    argument(
        "word",
        nargs="?",
        metavar="NAME|ACTION",
        help="show this source in detail, or: add, edit, remove, test, restart",
        completes=source_changes.ACTIONS,
    ),
    argument("name", nargs="?", metavar="NAME", help="the source to add, edit, remove, test or restart"),
    argument("fields", nargs="*", metavar="key=value", help="for add, edit and test: its fields"),
    argument("--file", metavar="FILE", help="for add, edit and test: fields in TOML or JSON, or with [sources.NAME]"),
    argument("--unset", action="append", metavar="KEY", help="for edit: remove this field; repeat for several"),
    argument("--refresh", action="store_true", help="reload every source first, bypassing caches"),
    JSON,
    *GATEWAY,
    examples="""\
  jackfield sources
  jackfield sources github             (in detail: tools, faults, stderr of its process)
  jackfield sources test github kind=mcp url=https://api.githubcopilot.com/mcp headers.Authorization='Bearer ${GH}'
  jackfield sources add git --file git.toml
  jackfield sources edit git prefix=git_
  jackfield sources restart git
  jackfield sources remove git
  jackfield sources --refresh          (reload every source first)
  jackfield sources --json""",
)
async def sources(options: Namespace) -> int:
    source_changes.check_words(options)
    async with connect(options) as client:
        if options.refresh:
            await client.tools.refresh()
        if options.word in source_changes.ACTIONS:
            return await source_changes.change(options, client)
        if options.word:
            source = await client.sources.get(options.word)
            print_either(options, {"source": source}, source_lines(source))
            return 0 if source.status == "up" else 1
        states = await client.tools.scenarios()
        reports = (await client.ready()).sources if any(state.error for state in states) else ()
    statuses = {report.name: report.status for report in reports}
    print_either(options, {"sources": states}, state_lines(states, statuses))
    return 0 if all(state.available and not state.error for state in states) else 1


def source_lines(source: SourceInfo) -> Iterator[str]:
    """One source in detail."""
    yield f"{style(escape(source.name), 'bold')}  {source.kind}, {source.origin}"
    since = f" since {source.since}" if source.since else ""
    yield f"{source.status if source.status == 'up' else style(source.status.replace('_', ' '), 'red')}{since}"
    error = None if source.status == "faulty" else source.error  # put together from the faults
    yield from (escape(text) for text in (error, source.doing) if text)
    yield from (f"{style('fault', 'yellow')}: {escape(fault)}" for fault in source.faults if fault not in (error or ""))
    if source.tools:
        yield f"tools: {', '.join(map(escape, source.tools))}"
    if source.prompts:
        yield f"prompts: {', '.join(map(escape, source.prompts))}"
    if source.resources or source.templates:
        yield f"{counted(source.resources, 'resource')}, {counted(source.templates, 'template')}"
    if source.stderr:
        yield style(f"{_what_it_said(source)}:", "dim")
        yield from (f"  {escape(line)}" for line in source.stderr)


def _what_it_said(source: SourceInfo) -> str:
    if FAILED_AT.match(source.stderr[-1]):
        return "failed requests, the last one below"
    return "errors in its files" if source.kind == "files" else "last lines on stderr"


def state_lines(states: Sequence[ScenarioState], statuses: Mapping[str, str]) -> list[str]:
    """Name, status, number of tools, last check, error. `statuses`: as the gateway calls them, where it says."""
    if not states:
        return ["No sources. Add one to the config: [sources.NAME]."]
    rows = [
        (
            escape(state.scenario),
            _status(state, statuses.get(state.scenario)),
            str(state.tool_count),
            state.last_checked or "never",
            escape(state.error or ""),
        )
        for state in states
    ]
    return table(rows, header=("NAME", "STATUS", "TOOLS", "CHECKED", "ERROR"), styles=("bold", "", "dim", "dim"))


def _status(state: ScenarioState, status: str | None) -> str:
    if status == "login_needed":
        return style("login needed", "yellow")
    if state.available:
        return style("faulty", "yellow") if state.error else "up"
    return style("down", "red")


@command(
    """\
Show how the definitions of upstream tools, prompts and resource templates have changed since they were pinned, and
accept them. Until then they are quarantined: hidden from agents, and calls fail with 403 'definition_changed'.

NAME is a source, for all that is quarantined of it, or one tool. If both exist, the source is meant. A server of an
agent is called 'server@agent'.

exit codes: 0 accepted or nothing to accept, 1 declined, 2 not accepted (unknown, changed again, no terminal)""",
    argument("name", help="a source or a tool"),
    argument("--refused", action="store_true", help="of a source: also what was refused before"),
    CONFIG,
    YES,
    *GATEWAY,
    examples="""\
  jackfield accept github
  jackfield accept gh_create_issue
  jackfield accept github --yes          (the diff is printed anyway)""",
)
async def accept(options: Namespace) -> int:
    return await _decide(options, accepts=True)


@command(
    """\
Show how the definitions of upstream tools, prompts and resource templates have changed since they were pinned, and
refuse them. They stay quarantined, and nobody is asked about them again until the source offers something else;
'jackfield accept TOOL' and 'jackfield accept SOURCE --refused' accept it after all.

NAME is as for 'jackfield accept'.

exit codes: 0 refused or nothing to refuse, 1 declined, 2 not refused (unknown, changed again, no terminal)""",
    argument("name", help="a source or a tool"),
    CONFIG,
    YES,
    *GATEWAY,
    examples="""\
  jackfield refuse github
  jackfield refuse create_issue --yes""",
)
async def refuse(options: Namespace) -> int:
    return await _decide(options, accepts=False)


async def _decide(options: Namespace, *, accepts: bool) -> int:
    """Show what is quarantined, and accept or refuse it."""
    verb, decided = ("Accept", "Accepted") if accepts else ("Refuse", "Refused")
    async with connect(options) as client:
        is_source = await _is_source(client, options.name)
        changes = await _changes(client, options.name, is_source=is_source)
        refused = [change for change in changes if change.refused_by]
        if not (accepts and (options.refused or not is_source)):
            changes = [change for change in changes if not change.refused_by]
        if not changes:
            state = f"waits; {counted(len(refused), 'definition')} refused before" if refused else "is quarantined"
            print(f"Nothing of '{escape(options.name)}' {state}.")
            return 0
        for change in changes:
            what = "" if change.kind == "tool" else f"{change.kind} "
            print(f"{what}{style(escape(change.name), 'bold')} of {escape(change.source)}")
            print_diff(change.diff or "(the pinned definition is not available; the gateway cannot read its store)")
            print()
        what = f"'{escape(changes[0].name)}'" if len(changes) == 1 else counted(len(changes), "definition")
        if not confirm(f"{verb} {what} as shown?", yes=options.yes):
            print(f"Nothing was {decided.lower()}.")
            return 1
        seen = {change.key or change.name: change.digest for change in changes}
        match is_source, accepts:
            case True, True:
                await client.sources.accept(options.name, seen)
            case True, False:
                await client.sources.refuse(options.name, seen)
            case False, True:
                await client.tools.accept(options.name, changes[0].digest)
            case False, False:
                await client.tools.refuse(options.name, changes[0].digest)
    print(f"{style(decided, 'green')}: {', '.join(escape(change.name) for change in changes)}.")
    return 0


async def _is_source(client: Client, name: str) -> bool:
    """A server of an agent (`server@agent`) is a source that is not listed."""
    return "@" in name or name in {source.name for source in (await client.ready()).sources}


async def _changes(client: Client, name: str, *, is_source: bool) -> Sequence[DefinitionDiff]:
    if is_source:
        return await client.sources.diff(name)
    try:
        change = await client.tools.diff(name)
    except ToolNotFound as fault:
        if not fault.message.startswith("There is no tool"):
            raise  # it says which source the prompt or template is accepted with
        if name in {prompt.name for prompt in await client.prompts.list()}:
            return []
        known = "'jackfield sources' and 'jackfield tools' list those there are."
        raise UsageError(f"There is no source or tool '{name}'. {known}") from None
    return [change] if change.held else []


@command(
    """\
Show what a worker wrote to stdout and stderr: print, logs, tracebacks. WORKER is the tool file's name without .py.
Without WORKER, list the workers: version, state, calls and restarts.""",
    argument("worker", nargs="?", help="the tool file's name, or SOURCE/NAME"),
    argument("--lines", type=int, default=200, metavar="N", help="the last N lines (200)"),
    argument("--follow", "-f", action="store_true", help="keep printing new lines"),
    argument("--json", action="store_true", help="print JSON; with --follow, one object per line"),
    *GATEWAY,
    examples="""\
  jackfield logs
  jackfield logs weather
  jackfield logs weather --follow""",
)
async def logs(options: Namespace) -> int:
    if not 1 <= options.lines <= MAX_LINES:
        raise UsageError(f"--lines takes a number from 1 to {MAX_LINES}.")
    if options.follow and not options.worker:
        raise UsageError("--follow needs the name of a worker. 'jackfield logs' lists them.")
    async with connect(options) as client:
        if not options.worker:
            workers = await client.workers.list()
            print_either(options, {"workers": workers}, worker_lines(workers))
            return 0
        lines = await client.workers.log(options.worker, limit=options.lines)
        if options.json and not options.follow:
            print_json({"lines": lines})
            return 0
        _print_log(lines, as_json=options.json)
        after = 0
        while options.follow:
            after = lines[-1].number if lines else after
            await asyncio.sleep(POLL_SECONDS)
            lines = await client.workers.log(options.worker, limit=MAX_LINES, after=after)
            _print_log(lines, as_json=options.json)
    return 0


def worker_lines(workers: Sequence[WorkerInfo]) -> list[str]:
    """Name, source, state, version, calls, restarts, error."""
    if not workers:
        return ["No workers. A tool file that starts with a '# /// script' block runs in one."]
    rows = [
        (
            escape(worker.name),
            escape(worker.source),
            worker.state,
            worker.version,
            str(worker.calls),
            str(worker.restarts),
            escape(" ".join((worker.error or "").split())),
        )
        for worker in workers
    ]
    header = ("WORKER", "SOURCE", "STATE", "VERSION", "CALLS", "RESTARTS", "ERROR")
    return table(rows, header=header, styles=("bold", "dim", "cyan"))


def _print_log(lines: Iterable[WorkerLine], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            print_json_line(line)
        else:
            print(f"{style(local_time(line.at), 'dim')} {style(f'#{line.process}', 'dim')} {escape(line.text)}")
