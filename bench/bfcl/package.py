"""The package of the tasks: installed from PyPI into a folder of the user's cache, and what it has read from there.

Above: `sides.py`. The package is installed without its dependencies, which are SDKs of models; its back ends need one
small library besides. Its own executor runs the reference answers directly, which is what both sides are held to.
"""

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uv
from msgspec import Struct

from bench.bfcl.answers import ToolCall, call_of
from bench.bfcl.backends import instances_of, public_state
from bench.processes import BenchError

S = TypeVar("S", bound=Struct)

PACKAGES = ("bfcl-eval==2026.3.23", "mpmath==1.3.0")
TASKS = "BFCL_v4_multi_turn_base.json"
CONSTANTS = "bfcl_eval.constants.executable_backend_config"
EXECUTOR = "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils"
INSTALL_SECONDS = 600


class Question(Struct, frozen=True, kw_only=True):
    """A task as the package has it: what is said in each turn, and what the back ends begin with."""

    id: str
    question: list[list[dict[str, str]]]
    initial_config: dict[str, Any]
    involved_classes: list[str]
    excluded_function: list[str] = []


class PossibleAnswer(Struct, frozen=True, kw_only=True):
    """The calls of each turn, as Python."""

    id: str
    ground_truth: list[list[str]]


class Task(Struct, frozen=True, kw_only=True):
    """A question with its reference answer."""

    question: Question
    answers: list[list[str]]
    calls: list[list[ToolCall]]
    """The same as calls, turn by turn."""

    @property
    def id(self) -> str:
        return self.question.id


class FunctionDoc(Struct, frozen=True, kw_only=True):
    """A function as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    response: dict[str, Any] = {}


class Ended(Struct, frozen=True, kw_only=True):
    """What a task came to."""

    results: list[str]
    """Of every call, as the package's executor writes them."""
    state: Any


def cache_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "jackfield" / "bench" / PACKAGES[0].replace("==", "-")


def installed() -> Path:
    """The folder that the package is in; PyPI is asked only when it is not there yet."""
    folder = cache_folder()
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8").split() == list(PACKAGES):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    command = [uv.find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
    said = subprocess.run(
        [*command, "--target", str(folder), *PACKAGES],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if said.returncode:
        raise BenchError(f"{', '.join(PACKAGES)} could not be installed. uv said: {said.stderr[-2000:]}")
    stamp.write_text("\n".join(PACKAGES), encoding="utf-8")
    return folder


class Package:
    """The tasks, functions and back ends in `folder`, which is put on this process's import path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "bfcl_eval" / "data"
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        constants = importlib.import_module(CONSTANTS)
        self._docs_of: Mapping[str, str] = constants.MULTI_TURN_FUNC_DOC_FILE_MAPPING
        self._modules: Mapping[str, str] = constants.CLASS_FILE_PATH_MAPPING

    def tasks(self, count: int | None = None) -> list[Task]:
        """The first `count` of the set, or all."""
        questions = islice(_lines(self._data / TASKS, Question), count)
        answers = {one.id: one.ground_truth for one in _lines(self._data / "possible_answer" / TASKS, PossibleAnswer)}
        return [self._task(question, answers[question.id]) for question in questions]

    def functions(self, backend: str) -> list[FunctionDoc]:
        """What a back end can do."""
        return _lines(self._data / "multi_turn_func_doc" / self._docs_of[backend], FunctionDoc)

    def run_directly(self, task: Task) -> Ended:
        """The reference answer, turn by turn, by the package's own executor."""
        execute = importlib.import_module(EXECUTOR).execute_multi_turn_func_call
        question, results, name = task.question, list[str](), "reference"
        instances = instances_of(question.id, question.involved_classes, question.initial_config, run=name)
        for answers in task.answers:
            told, instances = execute(answers, question.initial_config, question.involved_classes, name, question.id)
            results += told
        state = {backend: public_state(instance) for backend, instance in instances.items()}
        return Ended(results=results, state=msgspec.json.decode(msgspec.json.encode(state)))

    def _task(self, question: Question, answers: list[list[str]]) -> Task:
        parameters = {
            function.name: self._parameters(backend, function.name)
            for backend in question.involved_classes
            for function in self.functions(backend)
        }
        calls = [[call_of(answer, parameters) for answer in turn] for turn in answers]
        return Task(question=question, answers=answers, calls=calls)

    def _parameters(self, backend: str, function: str) -> Sequence[str]:
        """In the order of the code, which is not everywhere that of the description."""
        kind = getattr(importlib.import_module(self._modules[backend]), backend)
        return list(inspect.signature(getattr(kind, function)).parameters)[1:]


def _lines(file: Path, kind: type[S]) -> list[S]:
    decoder = msgspec.json.Decoder(kind)
    return [decoder.decode(line) for line in file.read_bytes().splitlines() if line]
