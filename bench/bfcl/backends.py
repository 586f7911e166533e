"""The package's back ends inside the gateway: one task at a time, whose state lives from one call to the next.

Above: the tool files that `tool_files.py` writes. The package makes its instances itself, so that all sides begin with
the same.
"""

import importlib
import itertools
import json
from typing import Any

_instances: dict[str, Any] = {}
_runs = itertools.count(1)


def begin(task: str, backends: list[str], config: dict[str, Any]) -> None:
    """New instances, which take the place of the last task's."""
    _instances.clear()
    _instances.update(instances_of(task, backends, config, run=f"gateway_{next(_runs)}"))


def call(backend: str, function: str, arguments: dict[str, Any]) -> Any:
    """One function of the current task. A result that JSON cannot hold is a text, as for the package's executor."""
    result = getattr(_instances[backend], function)(**arguments)
    try:
        json.dumps(result)
    except (TypeError, ValueError):
        return str(result)
    return result


def state() -> dict[str, Any]:
    """What the instances of the current task have become."""
    return {backend: public_state(instance) for backend, instance in _instances.items()}


def instances_of(task: str, backends: list[str], config: dict[str, Any], *, run: str) -> dict[str, Any]:
    """Made by the package's executor, which is given nothing to execute. It keeps them by the names of run and task."""
    executor = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
    made: dict[str, Any] = executor.execute_multi_turn_func_call([], config, backends, run, task)[1]
    return made


def public_state(value: Any, *, inside: tuple[int, ...] = ()) -> Any:
    """As JSON: what the leaderboard compares, which is every attribute without a leading underscore."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if id(value) in inside:
        return "(what it is in)"
    inner = (*inside, id(value))
    match value:
        case dict():
            return {repr(key): public_state(one, inside=inner) for key, one in value.items()}
        case list() | tuple():
            return [public_state(one, inside=inner) for one in value]
    if not hasattr(value, "__dict__"):
        return repr(sorted(value, key=repr) if isinstance(value, set) else value)
    public = {name: one for name, one in vars(value).items() if not name.startswith("_")}
    return {type(value).__name__: {name: public_state(one, inside=inner) for name, one in public.items()}}
