"""`jackfield resources` and `prompts`: list what sources offer to be read, read it, get prompts."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import compact, escape, first_line, print_either, print_json, print_stderr, style, table
from jackfield.cli.target import connect
from jackfield.model.text import counted
from jackfield.sdk import (
    PromptInfo,
    PromptMessage,
    PromptResult,
    ResourceContents,
    ResourceInfo,
    ResourceTemplateInfo,
)

GROUP = argument("--group", metavar="NAME", help="only what this group has")


@command(
    """\
List the resources that your key may read, list the templates of further ones, or read one. Text goes to stdout; what
is not text needs a file (-o).""",
    argument(
        "action",
        nargs="?",
        choices=("list", "templates", "read"),
        default="list",
        metavar="ACTION",
        help="list (default), templates or read",
    ),
    argument("uri", nargs="?", metavar="URI", help="for read: the resource"),
    argument("--output", "-o", metavar="FILE", help="for read: write the contents to this file"),
    GROUP,
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield resources
  jackfield resources templates
  jackfield resources read file:///README.md
  jackfield resources read file:///logo.png -o logo.png""",
)
async def resources(options: Namespace) -> int:
    if options.action == "read" and options.uri is None:
        raise UsageError("'read' needs the URI of a resource. 'jackfield resources' lists those there are.")
    if options.action != "read" and options.uri is not None:
        raise UsageError(f"'{options.action}' takes no URI. See 'jackfield resources read {options.uri}'.")
    if options.action != "read" and options.output is not None:
        raise UsageError("--output is for 'read'. Remove it.")
    async with connect(options) as client:
        if options.action == "list":
            found = await client.resources.list(group=options.group)
            print_either(options, {"resources": found}, resource_lines(found))
        elif options.action == "templates":
            templates = await client.resources.templates(group=options.group)
            print_either(options, {"resourceTemplates": templates}, template_lines(templates))
        else:
            contents = await client.resources.read(options.uri, group=options.group)
            _print_contents(options, contents)
    return 0


def _print_contents(options: Namespace, contents: Sequence[ResourceContents]) -> None:
    if options.output is not None:
        data = b"".join(part.data for part in contents)
        try:
            Path(options.output).write_bytes(data)
        except OSError as fault:
            raise UsageError(f"'{options.output}' cannot be written: {fault.strerror}. Name another file.") from None
        print_stderr(f"{counted(len(data), 'byte')} written to {escape(options.output)}.")
        return
    if options.json:
        print_json({"contents": contents})
        return
    binary = next((part for part in contents if part.text is None), None)
    if binary is not None:
        kind = escape(binary.mime_type or "of no known type")
        raise UsageError(
            f"'{options.uri}' is not text ({kind}, {counted(len(binary.data), 'byte')}). "
            "Write it to a file with -o FILE."
        )
    for part in contents:
        text = part.text or ""
        sys.stdout.write(escape(text) if sys.stdout.isatty() else text)
        if not text.endswith("\n"):
            sys.stdout.write("\n")


def resource_lines(resources: Sequence[ResourceInfo]) -> list[str]:
    """URI, source, type, name."""
    if not resources:
        return ["No resources. 'jackfield resources templates' lists templates of URIs that can be read."]
    return _table(
        ("URI", "SOURCE", "TYPE", "NAME"),
        ((one.uri, one.source, one.mime_type or "-", one.title or one.name) for one in resources),
    )


def template_lines(templates: Sequence[ResourceTemplateInfo]) -> list[str]:
    """Template, source, type, name."""
    if not templates:
        return ["No templates."]
    return _table(
        ("TEMPLATE", "SOURCE", "TYPE", "NAME"),
        ((one.uri_template, one.source, one.mime_type or "-", one.title or one.name) for one in templates),
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return table([[first_line(cell) for cell in row] for row in rows], header=header)


@command(
    "List the prompts that your key may get, or get one with its arguments filled in.",
    argument(
        "action", nargs="?", choices=("list", "get"), default="list", metavar="ACTION", help="list (default) or get"
    ),
    argument("name", nargs="?", metavar="NAME", help="for get: the prompt"),
    argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="for get: an argument; repeatable"),
    GROUP,
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield prompts
  jackfield prompts get review --arg code='x = 1'
  jackfield prompts get review --arg code='x = 1' --json""",
)
async def prompts(options: Namespace) -> int:
    if options.action == "get" and options.name is None:
        raise UsageError("'get' needs the name of a prompt. 'jackfield prompts' lists those there are.")
    if options.action == "list" and (options.name is not None or options.arg):
        raise UsageError("'list' takes no name and no arguments. See 'jackfield prompts get --help'.")
    if options.action == "get" and options.group is not None:
        raise UsageError("--group is for 'list'. Remove it.")
    arguments = dict(map(_pair, options.arg))
    async with connect(options) as client:
        if options.action == "list":
            found = await client.prompts.list(group=options.group)
            print_either(options, {"prompts": found}, prompt_lines(found))
        else:
            got = await client.prompts.get(options.name, arguments)
            print_either(options, got, message_lines(got))
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--arg takes NAME=VALUE, not '{text}'. Write for example --arg code='x = 1'.")
    return name, value


def prompt_lines(prompts: Sequence[PromptInfo]) -> list[str]:
    """Name, source, arguments, description."""
    if not prompts:
        return ["No prompts."]
    return _table(
        ("NAME", "SOURCE", "ARGUMENTS", "DESCRIPTION"),
        ((one.name, one.source, _arguments(one) or "-", one.description or one.title or "") for one in prompts),
    )


def _arguments(prompt: PromptInfo) -> str:
    return " ".join(one.name if one.required else f"[{one.name}]" for one in prompt.arguments)


def message_lines(prompt: PromptResult) -> Iterator[str]:
    """Each message with who says it; what is not text as JSON."""
    for number, message in enumerate(prompt.messages):
        if number:
            yield ""
        yield style(f"{escape(message.role)}:", "bold")
        yield _content(message)


def _content(message: PromptMessage) -> str:
    return escape(message.text) if message.content.get("type") == "text" else compact(message.content)
