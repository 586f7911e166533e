"""What `jackfield serve` prints when it is up: the link, the key, a command to try, and what is not well.

Above: `server.py`. Below: the gateway.
"""

import shlex

from msgspec import json

from jackfield.catalog.catalog import Entry
from jackfield.gateway.gateway import Gateway
from jackfield.model.text import counted
from jackfield.settings import Settings, listens_on_all
from jackfield.settings.tools import RESERVED_SOURCES
from jackfield.sources.supervisor import SourceState

_SAMPLES = {"string": "hello", "number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}


def banner(gateway: Gateway, *, workers: int = 1) -> str:
    """The lines to print, with a fresh login link in them. `workers`: how many processes share the port."""
    settings, keyring = gateway.settings, gateway.keyring
    home = f"{gateway.id}." if workers > 1 else ""  # says which of them knows the code
    code = f"{home}{keyring.new_code(keyring.host)}"
    processes = f" and {counted(workers, 'worker')}" if workers > 1 else ""
    entries = gateway.catalog.view(keyring.host.principal).entries
    lines = [
        f"Jackfield is up at {settings.url} with {counted(len(entries), 'tool')}{processes}.",
        f"  open  {settings.url}/#code={code}",
        f"  key   {keyring.key_file or 'as configured'}",
    ]
    if listens_on_all(settings.server) and not settings.server.public_url:
        lines.append(
            "  note  Other devices cannot open this link. Set [server] public_url to an address of this machine; "
            "links and QR codes then use it."
        )
    if entries:
        lines.append(f"  try   {_curl(gateway, _simplest(entries))}")
    lines += _chat(gateway)
    if {status.name for status in gateway.source_registry.statuses()} <= RESERVED_SOURCES and not entries:
        lines += _first_steps(settings)
    for source in gateway.source_registry.statuses():
        if source.status is SourceState.DOWN:
            lines.append(f"  down  source '{source.name}': {source.error}")
        if source.status is SourceState.LOGIN_NEEDED:
            lines.append(f"  login source '{source.name}': {source.error}")
        if source.status is SourceState.STARTING:
            doing = f" {source.doing}" if source.doing else ""
            lines.append(f"  wait  source '{source.name}' is still starting; its tools appear when it is up.{doing}")
        lines += [f"  fault source '{source.name}': {fault}" for fault in source.faults]
    lines += [f"  note  {notice.message}" for notice in gateway.catalog.notices]
    return "\n".join(lines) + "\n"


def _first_steps(settings: Settings) -> list[str]:
    """What to do with a gateway that has no sources."""
    in_console = "  next  Open the link to add MCP servers and REST services under Sources."
    if settings.path is not None:
        return [in_console, f"        Or add a table [sources.NAME] to {settings.path}."]
    return [
        in_console,
        "        Or create a small project here; in another terminal, in this folder:",
        "        jackfield init && jackfield reload",
    ]


def _chat(gateway: Gateway) -> list[str]:
    """How to chat with the first agent of the config that is in a space."""
    for agent_id, settings in gateway.settings.agents.items():
        if settings.spaces:
            where = f"JACKFIELD_DATA={shlex.quote(str(gateway.settings.data))}"
            return [
                f"  chat  {where} jackfield chat {settings.spaces[0]}",
                f"        to chat with {settings.name or agent_id}",
            ]
    return []


def _simplest(entries: tuple[Entry, ...]) -> Entry:
    """`hello` where there is one, else a tool with an example, else the one that asks for least."""

    def effort(entry: Entry) -> tuple[bool, bool, int]:
        required = entry.tool.input_schema.get("required", ())
        return entry.name != "hello", not entry.tool.metadata.examples, len(required)

    return min(entries, key=effort)


def _curl(gateway: Gateway, entry: Entry) -> str:
    key_file = gateway.keyring.key_file
    key = f"$(cat {shlex.quote(str(key_file))})" if key_file else "$KEY"
    body = json.encode({"arguments": sample_arguments(entry)}).decode()
    url = f"{gateway.settings.url}/api/v1/tools/{entry.name}/execute"
    return f'curl -s -H "x-api-key: {key}" -H "content-type: application/json" -d {shlex.quote(body)} {url}'


def sample_arguments(entry: Entry) -> dict[str, object]:
    """Arguments that should do: the tool's first example, else something of the right kind for what it requires."""
    tool = entry.tool
    if tool.metadata.examples:
        return tool.metadata.examples[0].input
    properties = tool.input_schema.get("properties", {})
    return {name: _sample(properties.get(name, {})) for name in tool.input_schema.get("required", ())}


def _sample(schema: object) -> object:
    if not isinstance(schema, dict):
        return None
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    return _SAMPLES.get(kind) if isinstance(kind, str) else None
