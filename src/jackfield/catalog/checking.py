"""Checks values against the schemas of tools: here if that is quick for sure, else in a process aside.

Compiling a schema and checking a value hold Python's global lock from beginning to end. What either costs at the worst
is estimated first; what may take longer than `MOST_HERE` is done in a process (`checking_process.py`).
Above: the catalog, which checks arguments and results. Below: `protocol/schemas.py` checks.
"""

import asyncio
import hashlib
import logging
import re
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import Unavailable
from jackfield.model.references import resolved
from jackfield.model.tool import JsonSchema
from jackfield.protocol.schema_limits import looks_of
from jackfield.protocol.schemas import ARGUMENTS, ArgumentChecker, Fault, fault_in
from jackfield.workers.helper import HelperFailed, HelperProcess
from jackfield.workers.supervisor import Supervisor

MOST_HERE = 5_000_000
"""Nanoseconds that one check may hold the event loop."""
LOOK = 100
STATE = 20
COMPILED_BYTE = 200
COMPILED_STATE = 1_500
"""Nanoseconds."""
BACKTRACKING = 3_000
"""Looks that a pattern costs which is not matched in linear time; only the operator's own tools may have such."""
EXPLAINED_HERE = 1_000
"""Looks at a value that does not fit. Each may be a fault, and a fault costs fifty times as much as a look."""
_MOST_STATES = 1_000_000_000
_WIDE = 12
"""States of a class that has most characters in it, written as bytes."""
_PROPERTY = 700
"""States of a class of Unicode like `\\p{L}`."""
_TOKEN = re.compile(
    r"(?P<property>\\[pP](?:\{[^}]*\}|.))|(?P<wide>\\[SWDB]|\.)|\\.|(?P<group>\((?:\?(?:[:=!>]|<[=!]|P?<[^>]*>|[a-z-]+:?))?)"
    r"|(?P<end>\))|\[(?P<class>(?:\\.|[^\]\\])*)\]?|(?P<repeat>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})|(?P<again>[*+?])|.",
    re.DOTALL,
)


class Weight(Struct, frozen=True, kw_only=True):
    """What values cost against one schema."""

    looks: int
    """At one place of a value, at the most; too many where it depends on how deep the value is."""
    states: int
    """Of all its patterns together."""

    def cost(self, value: bytes) -> int:
        """Nanoseconds that a check of this JSON takes at the most."""
        if self.looks * len(value) * LOOK <= MOST_HERE and not self.states:
            return 0
        return nodes_in(value) * self.looks * LOOK + len(value) * self.states * STATE


def weight_of(schema: JsonSchema, *, is_linear: bool) -> Weight:
    """`is_linear`: its patterns are matched by an engine that never goes back."""
    states = _states_in(schema)
    return Weight(looks=looks_of(schema) + (0 if is_linear else BACKTRACKING), states=states)


def is_heavy(schema: JsonSchema, text: bytes) -> bool:
    """Whether compiling it, `text` as JSON, might hold the event loop for too long."""
    cost = len(text) * COMPILED_BYTE
    if b'"pattern' in text and cost <= MOST_HERE:
        cost += _states_in(schema) * COMPILED_STATE
    return cost > MOST_HERE


def nodes_in(value: bytes) -> int:
    """How many values JSON has at the most, those within others counted."""
    return 1 + value.count(b",") + value.count(b"[") + value.count(b"{")


def _states_in(schema: JsonSchema) -> int:
    total = 0
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                total += states_of(node["pattern"])
            if isinstance(node.get("patternProperties"), dict):
                total += sum(states_of(str(pattern)) for pattern in node["patternProperties"])
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return min(total, _MOST_STATES)


def states_of(pattern: str) -> int:
    """About how large the machine is that matches this pattern: what is to be repeated counts as often."""
    open_groups = [0]
    last = 0
    """What a repetition would be one of."""
    for token in _TOKEN.finditer(pattern):
        if token["group"]:
            open_groups[-1] += last
            open_groups.append(0)
            last = 0
        elif token["end"]:
            inside = open_groups.pop() + last if len(open_groups) > 1 else 0
            last = max(1, inside)
        elif token["repeat"]:
            last *= max(1, int(token["most"] or 0), int(token["least"]) + 1)
        elif token["again"]:
            last += 1
        else:
            open_groups[-1] += last
            last = _atom(token)
        last = min(last, _MOST_STATES)
    return min(sum(open_groups) + last, _MOST_STATES)


def _atom(token: "re.Match[str]") -> int:
    inside = token["class"]
    if token["property"]:
        return _PROPERTY
    if token["wide"]:
        return _WIDE
    if inside is None:
        return 1 if token[0].isascii() else 4
    named = inside.count("\\p") + inside.count("\\P")
    is_wide = inside.startswith("^") or not inside.isascii() or any(word in inside for word in ("\\S", "\\W", "\\D"))
    return named * _PROPERTY + (_WIDE if is_wide or "\\u" in inside else 1)


def encoded(value: Any) -> bytes | None:
    """The value as JSON; None where JSON cannot hold it."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


MOST_LOOKS = 5_000
"""Names, items and parts that are looked at for one call."""
DEEPEST = 40


def with_defaults(schema: JsonSchema, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with what is required, left out and has a default; the very same object where there is no such."""
    filled: dict[str, Any] = _Filling(schema).filled(schema, arguments, depth=0)
    return arguments if filled == arguments else filled


class _Filling:
    """One call's arguments."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._looks = 0

    def filled(self, schema: Any, value: Any, *, depth: int) -> Any:
        """`value` with its defaults, which is a copy where it has any."""
        if depth > DEEPEST or not isinstance(value, dict | list) or not self._may_look():
            return value
        here = resolved(schema, self._root)
        if isinstance(value, list):
            items = here.get("items")
            return [self.filled(items, item, depth=depth + 1) for item in value] if isinstance(items, dict) else value
        found = dict(value)
        parts = here.get("allOf")
        for part in (here, *(parts if isinstance(parts, list) else ())):
            if self._may_look():
                self._fill(resolved(part, self._root), found, depth=depth)
        return found

    def _fill(self, part: JsonSchema, found: dict[str, Any], *, depth: int) -> None:
        properties = part.get("properties")
        if not isinstance(properties, dict):
            return
        required = part.get("required")
        for name in required if isinstance(required, list) else ():
            if (
                name not in found
                and self._may_look()
                and "default" in (own := resolved(properties.get(name), self._root))
            ):
                found[name] = own["default"]
        for name, value in found.items():
            if name in properties:
                found[name] = self.filled(properties[name], value, depth=depth + 1)

    def _may_look(self) -> bool:
        self._looks += 1
        return self._looks <= MOST_LOOKS


log = logging.getLogger("jackfield.catalog")

CHECK_SECONDS = 10.0
"""How long one check may take in its process."""
MOST_WAITING = 64
"""Checks that wait for the process; then arguments are refused. A result is never: its tool has run."""
KEPT = 4096


class CheckQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the process is asked: about a value, or about the schema itself."""

    schema: Raw
    key: str = ""
    """Which schema it is, so that it is compiled once."""
    whole: str = ARGUMENTS
    value: Raw = Raw()
    """Empty: it is about the schema."""
    is_foreign: bool = False
    brings_values: bool = False


class CheckAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Faults of the value, or what is wrong with the schema."""

    faults: list[Fault] = []
    fault: str | None = None


class _Known(Struct, frozen=True, kw_only=True):
    """One schema in use. Without a checker it is always checked aside."""

    key: str
    schema: JsonSchema
    whole: str
    checker: ArgumentChecker | None = None
    weight: Weight | None = None


_answer_of = msgspec.json.Decoder(CheckAnswer).decode


def helper_process(supervisor: Supervisor) -> HelperProcess:
    """The process that checks aside; not started yet."""
    command = (sys.executable, "-m", "jackfield.catalog.checking_process")
    return HelperProcess(command, supervisor=supervisor, within=CHECK_SECONDS)


class Checking:
    """Compiled schemas of the tools in use, by tool version; of too many the least recently used one goes."""

    def __init__(self, helper: HelperProcess | None = None, *, keep: int = KEPT) -> None:
        """Without a helper everything is checked here."""
        self._helper = helper
        self._keep = keep
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._verdicts: OrderedDict[tuple[str, bool, bool], str | None] = OrderedDict()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checking")

    def open(self) -> None:
        """From now on there may be a process aside."""
        if self._helper is not None:
            self._helper.open()

    def close(self) -> None:
        if self._helper is not None:
            self._helper.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def fault_in(self, schema: JsonSchema, *, is_foreign: bool = False, brings_values: bool = False) -> str | None:
        """As `schemas.fault_in`. In a thread, a schema that takes long to read is read aside."""
        text = encoded(schema)
        helper = self._helper
        if text is None or helper is None or not is_heavy(schema, text):
            return fault_in(schema, is_foreign=is_foreign, brings_values=brings_values)
        key = (hashlib.sha256(text).hexdigest(), is_foreign, brings_values)
        if key in self._verdicts:
            return self._verdicts[key]
        if not helper.can_wait:
            return fault_in(schema, is_foreign=is_foreign, brings_values=brings_values)
        question = CheckQuestion(schema=Raw(text), is_foreign=is_foreign, brings_values=brings_values)
        try:
            verdict = _answer_of(helper.ask(lambda: msgspec.json.encode(question))).fault
        except HelperFailed as fault:
            log.warning("a schema of %d bytes could not be read aside: %s", len(text), fault)
            return "takes so long to read that it cannot be used; make it, or its patterns, smaller"
        self._verdicts[key] = verdict
        if len(self._verdicts) > self._keep:
            self._verdicts.popitem(last=False)
        return verdict

    async def faults(self, version: str, schema: JsonSchema, value: Any, *, whole: str = ARGUMENTS) -> list[Fault]:
        """What is wrong with `value`. `schema` is the one that tools of this version have for `whole`."""
        known = self._get(version, schema, whole)
        text = encoded(value)
        if text is None:
            return (known.checker or ArgumentChecker(schema, whole=whole)).check(value)
        if known.checker is not None and known.weight is not None:
            if self._helper is None:
                return known.checker.check(value)
            if known.weight.cost(text) <= MOST_HERE:
                if known.checker.fits(value):
                    return []
                if nodes_in(text) * known.weight.looks <= EXPLAINED_HERE:
                    return known.checker.check(value)
        if self._waiting >= MOST_WAITING:
            raise Unavailable("Too many large values are being checked at this moment. Try again in a while.")
        return await self._aside(known, text)

    async def faults_in_json(
        self, version: str, schema: JsonSchema, text: bytes | Raw, *, whole: str = ARGUMENTS
    ) -> list[Fault]:
        """As `faults`, of a value that is JSON still. A large one is not even read here."""
        known = self._get(version, schema, whole)
        if known.checker is None or (
            self._helper is not None and known.weight is not None and known.weight.cost(bytes(text)) > MOST_HERE
        ):
            return await self._aside(known, bytes(text))
        return await self.faults(version, schema, msgspec.json.decode(text), whole=whole)

    def _get(self, version: str, schema: JsonSchema, whole: str) -> _Known:
        key = (version, whole)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        text = encoded(schema)
        known = _Known(key=f"{version} {whole}", schema=schema, whole=whole)
        if self._helper is None or text is None or not is_heavy(schema, text):
            checker = ArgumentChecker(schema, whole=whole)
            weight = weight_of(schema, is_linear=checker.is_linear)
            known = msgspec.structs.replace(known, checker=checker, weight=weight)
        self._known[key] = known
        if len(self._known) > self._keep:
            self._known.popitem(last=False)
        return known

    async def _aside(self, known: _Known, text: bytes) -> list[Fault]:
        assert self._helper is not None
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._thread, self._asked, self._helper, known, text)
        except HelperFailed as fault:
            log.warning("a value of %d bytes could not be checked aside: %s", len(text), fault)
            said = f"{known.whole} could not be checked against the tool's schema within {CHECK_SECONDS:g} s; send less"
            return [{"path": "", "message": said}]
        finally:
            self._waiting -= 1
        return answer.faults

    def _asked(self, helper: HelperProcess, known: _Known, text: bytes) -> CheckAnswer:
        """In a thread."""
        schema = Raw(msgspec.json.encode(known.schema))
        question = CheckQuestion(schema=schema, key=known.key, whole=known.whole, value=Raw(text))
        return _answer_of(helper.ask(lambda: msgspec.json.encode(question)))
