"""Python functions as tools: their definitions from type hints and docstrings, and running them.

Above: the SDK, which serves functions to a gateway, and `discovery`, which publishes them. Below: inspect and msgspec.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.text import with_article

MILLISECONDS = 1000
_log = logging.getLogger("jackfield.sdk")
_PLAIN = (str, int, float, bool, type(None))
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_Parameters = Mapping[str, inspect.Parameter]


class ServedTool(Struct, frozen=True, kw_only=True):
    """A function that answers calls, with what its type hints and docstring do not say."""

    function: Callable[..., Any]
    name: str | None = None
    """The function's own name unless given."""
    description: str | None = None
    """The docstring unless given."""
    input_schema: dict[str, Any] | None = None
    """Made from the type hints unless given."""
    idempotent: bool = False
    """Whether a call may run twice. Such a call goes to another server when this one is gone."""
    is_async: bool = False
    """Whether callers get `pending` at once and the result later."""
    visible: bool = False
    """Whether an agent's calls are shown in its space; an agent without a space cannot call it."""
    timeout: float | None = None
    """Seconds that a caller waits for the result."""
    category: str | None = None
    """The id of its category."""
    metadata: dict[str, Any] = {}
    """The fields of the tool's metadata that differ from the default."""


Servable = Callable[..., Any] | ServedTool
Servables = Mapping[str, Servable] | Iterable[Servable]


class ToolAnswer(Struct, frozen=True):
    """The answer to a call: a result as JSON (`null` is one), or an error message."""

    result: Raw | None = None
    error: str | None = None

    @classmethod
    def of(cls, result: Any) -> "ToolAnswer":
        """Raises `TypeError` or `ValueError` for what JSON cannot hold."""
        return cls(result=Raw(msgspec.json.encode(result)))

    def fields(self) -> dict[str, Any]:
        """As a request's body carries it."""
        return {"result": self.result} if self.error is None else {"error": self.error}


class ToolFunction:
    """One function, ready to run."""

    def __init__(self, name: str, tool: ServedTool, parameters: _Parameters) -> None:
        self.name = name
        self.tool = tool
        self._parameters = parameters
        self._takes_more = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        self._arguments = self._arguments_type()

    @property
    def is_idempotent(self) -> bool:
        """Whether its author says that a call may run twice."""
        return self.tool.idempotent or bool(self.tool.metadata.get("idempotent"))

    def definition(self) -> dict[str, Any]:
        """The tool as a tool server declares it. Raises `TypeError` for hints that make no schema."""
        tool = self.tool
        shown: dict[str, Any] = {
            "name": self.name,
            "description": tool.description or inspect.getdoc(tool.function) or f"The function '{self.name}'.",
            "inputSchema": tool.input_schema or self._schema(),
            "isAsync": tool.is_async,
            "visible": tool.visible,
            "metadata": {**tool.metadata, "idempotent": self.is_idempotent},
        }
        if tool.category is not None:
            shown["category"] = tool.category
        if tool.timeout is not None:
            shown["timeout"] = round(tool.timeout * MILLISECONDS)
        return shown

    async def run(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run it with these arguments. Whatever it raises becomes the answer's error."""
        try:
            given = self._converted(arguments)
        except (msgspec.ValidationError, TypeError) as fault:
            return ToolAnswer(error=f"The arguments do not fit '{self.name}': {fault}.")
        if _is_async(self.tool.function):
            return await self._awaited(self.tool.function(**given))
        ended = await in_daemon_thread(partial(self._whole_call, given))
        return ended if isinstance(ended, ToolAnswer) else await self._awaited(ended)

    def _whole_call(self, arguments: dict[str, Any]) -> Any:
        """The answer of a plain function; the awaitable of a wrapped `async def`, which belongs to the event loop."""
        try:
            result = self.tool.function(**arguments)
            return result if inspect.isawaitable(result) else self._encoded(result)
        except BaseException as error:  # noqa: BLE001 - the border to a tool; SystemExit must not end the server
            return failed(error, tool=self.name)

    async def _awaited(self, coming: Any) -> ToolAnswer:
        try:
            return self._encoded(await coming)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return failed(error, tool=self.name)
        except BaseException as error:  # noqa: BLE001 - the border to a tool; SystemExit must not end the server
            return failed(error, tool=self.name)

    def _encoded(self, result: Any) -> ToolAnswer:
        try:
            return ToolAnswer.of(result)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as fault:
            return ToolAnswer(
                error=f"'{self.name}' returned {with_article(type(result).__name__)} that JSON cannot hold: {fault}."
            )

    def _converted(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the hints ask for: a date for its text, a dataclass for its object."""
        if self._arguments is None:
            return dict(arguments)
        whole = msgspec.convert(dict(arguments), self._arguments)
        return {name: getattr(whole, name) if name in self._fields() else given for name, given in arguments.items()}

    def _fields(self) -> dict[str, inspect.Parameter]:
        return {name: each for name, each in self._parameters.items() if each.kind in _BY_NAME}

    def _arguments_type(self) -> type[Struct] | None:
        """The parameters as one type. None when a hint cannot be resolved: then arguments are passed unconverted."""
        if any(isinstance(each.annotation, str) for each in self._parameters.values()):
            return None
        fields = [_field(name, each) for name, each in self._fields().items()]
        return msgspec.defstruct(
            f"{self.name}_arguments", fields, kw_only=True, forbid_unknown_fields=not self._takes_more
        )

    def _schema(self) -> dict[str, Any]:
        if self._arguments is None:
            raise TypeError(
                f"the type hints of '{self.name}' name something that cannot be found; import it, or give input_schema"
            )
        try:
            (root,), parts = msgspec.json.schema_components((self._arguments,), ref_template="#/$defs/{name}")
        except TypeError as fault:
            raise TypeError(
                f"the type hints of '{self.name}' make no JSON schema ({_last_line(fault)}); "
                "use types that JSON knows, or give input_schema"
            ) from None
        whole = parts.pop(root["$ref"].removeprefix("#/$defs/"))
        schema = {key: value for key, value in whole.items() if key != "title"}
        typed: dict[str, Any] = _typed({**schema, "$defs": parts} if parts else schema)
        return typed


def _typed(schema: Any) -> Any:
    """The schema with `type` added to every enum of strings, as not every reader infers it."""
    if isinstance(schema, list):
        return [_typed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: inner if key in ("enum", "default", "examples") else _typed(inner) for key, inner in schema.items()}
    choices = made.get("enum")
    if isinstance(choices, list) and "type" not in made and all(isinstance(choice, str) for choice in choices):
        return {"type": "string", **made}
    return made


def tool_functions(functions: Servables) -> dict[str, ToolFunction]:
    """The functions by name. Raises `TypeError` for what cannot be called with keywords."""
    pairs = functions.items() if isinstance(functions, Mapping) else [(None, each) for each in functions]
    callees: dict[str, ToolFunction] = {}
    for name, given in pairs:
        callee = _callee(name, given)
        if callee.name in callees:
            raise TypeError(f"two functions are called '{callee.name}'; give one of them another name")
        callees[callee.name] = callee
    if not callees:
        raise TypeError("there is nothing to serve; give at least one function")
    return callees


def _callee(key: str | None, given: Servable) -> ToolFunction:
    tool = given if isinstance(given, ServedTool) else ServedTool(function=given)
    name = key or tool.name or getattr(tool.function, "__name__", None)
    if not callable(tool.function) or not name:
        raise TypeError(f"{tool.function!r} cannot be served; give a function, or a mapping of names to functions")
    try:
        parameters = _signature(tool.function).parameters
    except ValueError:
        raise TypeError(f"'{name}' cannot be served: its parameters cannot be inspected; wrap it") from None
    for each in parameters.values():
        if each.kind is inspect.Parameter.POSITIONAL_ONLY and each.default is inspect.Parameter.empty:
            raise TypeError(f"'{name}' cannot be served: its argument '{each.name}' cannot be given by name")
    return ToolFunction(name, tool, parameters)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """With string annotations resolved where possible."""
    try:
        return inspect.signature(function, eval_str=True)
    except NameError:
        return inspect.signature(function)


def _field(name: str, parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    """A parameter as a field. A default that is not a plain value is left to the function."""
    hint = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
    if parameter.default is inspect.Parameter.empty:
        return name, hint
    if isinstance(parameter.default, _PLAIN):
        return name, hint, parameter.default
    return name, hint, msgspec.field(default_factory=lambda: None)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - an object whose call is a coroutine


def failed(error: BaseException, *, tool: str) -> ToolAnswer:
    """`ValueError: …`"""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a tool's own exception class may fail at this too
        message = ""
    _log.warning("Tool %s failed.", tool, exc_info=error)
    return ToolAnswer(error=f"{type(error).__name__}: {message}" if message else type(error).__name__)


async def in_daemon_thread(job: Callable[[], Any]) -> Any:
    """The job's result. A cancelled job's thread runs on and holds up neither the loop nor the program's end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(result: Any) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        result = context.run(job)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, name="jackfield-served", daemon=True).start()
    return await future


def _last_line(fault: Exception) -> str:
    return str(fault).strip().splitlines()[-1]
