"""`reference/sdk.md`: the Python SDK, from its signatures and docstrings."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args

from msgspec import Struct

from documentation.fields import fields_of, shown_default, summary_of
from documentation.markdown import page, table
from jackfield import sdk
from jackfield.errors import JackfieldError
from jackfield.sdk import Client, Session

_MODULES = re.compile(r"\b(?:jackfield|collections|typing|contextlib|types)\.(?:\w+\.)*")
_RETRIES = """\
A request is sent again after a lost connection, `retries` times, with growing pauses, if it may arrive twice: a GET, a
message of a space, a call with an `idempotency_key`. Such a key names one call for 24 hours, so the call is made once,
however often the request arrives, and a retry gets its result:

```text
client.tools.call("book", room="attic", idempotency_key=str(uuid4()))
```

Without a key, a call whose response is lost raises `GatewayUnreachable`, and `client.calls.list` shows whether it was
made. 429 and 503 are retried with `retry_after=SECONDS`, when the gateway asks for no longer a pause than that.
`timeout` limits every request but calls and streams; a call has its own, which raises `NoAnswer` and leaves the call
running.
`client.calls.wait`, streams, `serve` and sessions outlive a restart of the gateway.
"""
_PARAGRAPH = re.compile(r"\n\s*\n")


def sdk_page() -> str:
    """The whole page."""
    return page(
        "Python SDK reference",
        "`from jackfield.sdk import Client` for `async` programs; `SyncClient` has the same methods without `await`. "
        "Installed with the gateway, and it loads no server code. The [tutorial](../tutorial/2-calls.md) shows it at "
        "work.",
        "## Client",
        _documented(Client),
        _code(f"Client{_signature(Client.__init__)}"),
        "### Retries and timeouts",
        _RETRIES,
        *_methods("client", Client),
        *(
            part
            for name, kind in namespaces()
            for part in (f"## client.{name}", _documented(kind), *_methods(f"client.{name}", kind))
        ),
        "## Session",
        _documented(Session),
        *_methods("session", Session),
        "## Functions",
        *_functions(),
        "## Statuses",
        "Type checkers know the statuses of records by these names. At run time they are text, so that a newer gateway "
        "may have more.",
        *(f"### {name}\n\n{_choices(getattr(sdk, name))}" for name in ("CallStatusName", "RunStatusName")),
        "## Records",
        "What the methods return. Fields that a newer gateway adds are ignored; fields that an older one lacks have "
        "their default.",
        *(part for one in records() for part in _record(one)),
        "## Errors",
        "All derive from `JackfieldError`, with `message` and a stable `code`. Besides these, a method raises the "
        "gateway's own [refusals](errors.md#refusals), by the class named there.",
        table(["class", "when"], ((f"`{one.__name__}`", summary_of(one)) for one in own_errors())),
    )


def namespaces() -> list[tuple[str, type[Any]]]:
    """`client.tools` and the others, by name."""
    client = Client("http://127.0.0.1:1", "no-key")
    return [(name, type(part)) for name, part in vars(client).items() if not name.startswith("_")]


def public_methods(kind: type[Any]) -> list[str]:
    return [
        name
        for name, member in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def records() -> list[type[Struct]]:
    exported = (getattr(sdk, name) for name in sdk.__all__)
    return [one for one in exported if inspect.isclass(one) and issubclass(one, Struct)]


def own_errors() -> list[type[JackfieldError]]:
    exported = [getattr(sdk, name) for name in sdk.__all__]
    return [
        one
        for one in exported
        if inspect.isclass(one) and issubclass(one, JackfieldError) and one.__module__.startswith("jackfield.sdk")
    ]


def _choices(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in get_args(names) if name)


def _methods(prefix: str, kind: type[Any]) -> Iterator[str]:
    for name in public_methods(kind):
        member = vars(kind)[name]
        if isinstance(member, property):
            yield f"### {prefix}.{name}"
            yield _documented(member.fget)
            continue
        yield f"### {prefix}.{name}"
        word = "await " if inspect.iscoroutinefunction(member) else "async for … in " if _is_stream(member) else ""
        yield _code(f"{word}{prefix}.{name}{_signature(member)}")
        yield _documented(member)


def _functions() -> Iterator[str]:
    for name in sdk.__all__:
        one = getattr(sdk, name)
        if inspect.isfunction(one):
            yield f"### {name}"
            yield _code(f"{name}{_signature(one)}")
            yield _documented(one)


def _record(record: type[Struct]) -> Iterator[str]:
    yield f"### {record.__name__}"
    yield _documented(record)
    rows = ((f"`{one.name}`", one.words, shown_default(one.default), one.meaning) for one in _python_fields(record))
    yield table(["field", "type", "default", "meaning"], rows)
    properties = [name for name in public_methods(record) if isinstance(vars(record)[name], property)]
    yield table(["property", "meaning"], ((f"`{name}`", summary_of(vars(record)[name].fget)) for name in properties))


def _python_fields(record: type[Struct]) -> Iterator[Any]:
    """The fields by the names that a program uses, not those of the wire."""
    for name, field in zip(record.__struct_fields__, fields_of(record), strict=True):
        yield type(field)(
            name=name,
            type=field.type,
            words=field.words,
            is_required=field.is_required,
            default=field.default,
            meaning=field.meaning,
        )


def _is_stream(member: Any) -> bool:
    return inspect.isasyncgenfunction(member)


def _signature(member: Any) -> str:
    signature = inspect.signature(member)
    parameters = [one for name, one in signature.parameters.items() if name != "self"]
    text = str(signature.replace(parameters=parameters))
    text = _MODULES.sub("", text.replace("NoneType", "None")).replace("'", "")
    return text.removesuffix(" -> None")


def _code(text: str) -> str:
    """A signature; long ones have a line for each parameter."""
    width = 100
    if len(text) > width and "(" in text:
        head, _, rest = text.partition("(")
        inside, _, tail = rest.rpartition(")")
        text = f"{head}(\n    " + ",\n    ".join(_split(inside)) + f",\n){tail}"
    return f"```text\n{text}\n```"


def _split(parameters: str) -> Iterator[str]:
    """At the commas that are in no brackets."""
    depth, start = 0, 0
    for at, sign in enumerate(parameters):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            yield parameters[start:at].strip()
            start = at + 1
    yield parameters[start:].strip()


def _documented(thing: Any) -> str:
    """A docstring as Markdown; its examples are code."""
    text = inspect.cleandoc((vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__) or "")
    parts = (part for part in _PARAGRAPH.split(text) if part.strip())
    return "\n\n".join(_indented(part) if part.startswith("    ") else part for part in parts)


def _indented(part: str) -> str:
    return "```text\n" + inspect.cleandoc(part) + "\n```"
