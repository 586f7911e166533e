"""Checks values against the schemas of tools: here if that is quick for sure, else in a process aside.

Whatever a schema asks and a value brings, the event loop is held for some milliseconds at the most.
Above: the catalog, which checks arguments and results; questions that come up in a call. Below: `schemas.py` checks,
`weight.py` estimates, `checking_process.py` is the process.
"""

import asyncio
import hashlib
import logging
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.catalog.weight import EXPLAINED_HERE, MOST_HERE, Weight, encoded, is_heavy, nodes_in, weight_of
from jackfield.errors import Unavailable
from jackfield.model.tool import JsonSchema
from jackfield.protocol.schemas import ARGUMENTS, ArgumentChecker, Fault, fault_in
from jackfield.workers.helper import HelperFailed, HelperProcess
from jackfield.workers.supervisor import Supervisor

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
