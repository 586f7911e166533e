"""`jackfield sources add|edit|remove|test|restart`: what they take, do and print."""

import tomllib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jackfield.cli.options import UsageError
from jackfield.cli.output import escape, print_either, style, table
from jackfield.model.text import counted, nearest
from jackfield.sdk import Client
from jackfield.sdk.sources import SourceInfo, SourceTest

ACTIONS = ("add", "edit", "remove", "test", "restart")
_TAKE_FIELDS = ("add", "edit", "test")


def check_words(options: Namespace) -> None:
    """Raises `UsageError` for a command line that cannot be meant."""
    action, name = options.word, options.name
    if action not in ACTIONS:
        if name is not None:
            raise UsageError(
                f"There is no action '{action}'.{nearest(action, [*ACTIONS])} Known: {', '.join(ACTIONS)}. "
                f"'jackfield sources {action}' shows the source '{action}'."
            )
        if options.fields or options.file or options.unset:
            raise UsageError("--file, --unset and fields are for 'add', 'edit' and 'test'.")
        return
    if name is None:
        raise UsageError(f"'{action}' needs the name of a source. Add it.")
    if "=" in name:
        raise UsageError(f"'{action}' needs the name of a source before '{name}'. Add it.")
    if action not in _TAKE_FIELDS and (options.fields or options.file):
        raise UsageError(f"'{action}' takes no fields. Leave them out.")
    if options.unset and action != "edit":
        raise UsageError("--unset is for 'edit'. Leave it out.")


def fields_of(options: Namespace, *, among: str = "sources") -> dict[str, Any]:
    """The fields of a source or a model (`among`): those of the file, then those of the line."""
    found = {} if options.file is None else _fields_in(Path(options.file), options.name, among)
    for word in options.fields or ():
        key, equals, text = word.partition("=")
        if not equals or not key.removesuffix(":"):
            raise UsageError(f"'{word}' is not a field. Write key=value, or key:=JSON.")
        _set(found, key.removesuffix(":").split("."), _json(text, key) if key.endswith(":") else _typed(text))
    for key in options.unset or ():
        found[key] = None
    return found


def _fields_in(path: Path, name: str, among: str) -> dict[str, Any]:
    """A TOML or JSON file with the fields themselves, or with `[sources.NAME]`."""
    try:
        text = path.read_text(encoding="utf-8")
        found = msgspec.json.decode(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, tomllib.TOMLDecodeError) as fault:
        raise UsageError(f"{path} cannot be read: {fault}.") from None
    if isinstance(found, dict) and isinstance(found.get(among), dict):
        found = found[among].get(name)
    if not isinstance(found, dict):
        raise UsageError(f"{path} has no fields, and no [{among}.{name}].")
    return found


def _typed(text: str) -> Any:
    """JSON if it is JSON, such as `true`, `3` or `["a"]`; else text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _json(text: str, key: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as fault:
        raise UsageError(f"The value of '{key.removesuffix(':')}' is not JSON: {fault}.") from None


def _set(found: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    *tables, last = keys
    for key in tables:
        inner = found.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"'{'.'.join(keys)}': '{key}' is a value, so nothing can be below it.")
        found = inner
    found[last] = value


async def change(options: Namespace, client: Client) -> int:
    """Do one of `ACTIONS`."""
    name = options.name
    if options.word == "test":
        return await _test(options, client)
    if options.word in ("add", "edit"):
        return await _keep(options, client)
    if options.word == "remove":
        await client.sources.delete(name)
        print_either(options, {"removed": name}, [f"Removed the source '{escape(name)}'."])
    else:
        await client.sources.restart(name)
        print_either(options, {"restarting": name}, [f"The source '{escape(name)}' is restarting at every gateway."])
    return 0


async def _keep(options: Namespace, client: Client) -> int:
    fields = fields_of(options)
    if options.word == "add":
        source = await client.sources.create(options.name, fields)
    elif not fields:
        raise UsageError("'edit' needs a field to change, such as url=https://…, or --unset KEY. Add one.")
    else:
        source = await client.sources.change(options.name, fields)
    print_either(options, {"source": source}, kept_lines(source, "Added" if options.word == "add" else "Changed"))
    return 0 if source.status in ("up", "starting") else 1


async def _test(options: Namespace, client: Client) -> int:
    fields = fields_of(options)
    found = await client.sources.test(options.name, fields or None)
    print_either(options, found, trial_lines(found))
    return 0 if found.ok else 1


def kept_lines(source: SourceInfo, done: str) -> Iterator[str]:
    """That it is kept, and how it is now."""
    is_well = source.status in ("up", "starting")
    status = source.status.replace("_", " ")
    yield f"{done} the source '{escape(source.name)}': {status if is_well else style(status, 'red')}."
    yield from (escape(text) for text in (source.error, *source.faults) if text)
    if source.tools:
        yield f"tools: {', '.join(map(escape, source.tools))}"
    if not is_well:
        yield f"See 'jackfield sources {escape(source.name)}'."
    elif source.status == "starting":
        yield f"'jackfield sources {escape(source.name)}' shows what comes of it."


def trial_lines(found: SourceTest) -> Iterator[str]:
    """What it would offer, or why not."""
    if found.ok:
        counts = {"tool": len(found.tools), "resource": found.resources, "prompt": found.prompts}
        yield f"{style('It works', 'green')}: {', '.join(counted(count, what) for what, count in counts.items())}."
    else:
        yield f"{style('It does not work', 'red')}: {escape(found.error or 'it gave no reason.')}"
    yield from (f"{style('fault', 'yellow')}: {escape(fault)}" for fault in found.faults)
    yield from table([(escape(tool.name), escape(tool.description)) for tool in found.tools], styles=("bold",))
    if found.stderr and not found.ok:
        yield style("its last lines:", "dim")
        yield from (f"  {escape(line)}" for line in found.stderr)
