"""What a tool file may import, and the program that runs it in a worker process. Standard library only.

For authors of tool files (`import jackfield_tool`, or `ot_sdk`, its older name):

    from jackfield_tool import get_config, get_secret, log, call_tool, report_progress

    async def forecast(city: str) -> dict:
        with log("forecast", city=city) as span:
            place = await call_tool("geocode", city=city)     # in a plain def: without await
            report_progress(1, total=2, message="found the place")
            span.add(country=place["country"])
            return {"units": get_config("units", "metric"), "signed": bool(get_secret("WEATHER_KEY"))}

The gateway starts one process per file version, with one end of a socketpair as fd 0 and 1:

    python FOLDER serve FILE --options JSON     imports the file and serves many calls at once
    python FOLDER script FILE --options JSON    runs the file, which reads stdin and prints answers itself

FOLDER is the one that holds this package. `api.py` is for authors; `serve.py` starts, `dispatcher.py` runs calls from
`channel.py`, `functions.py` and `hints.py` fit arguments to functions, `encoding.py` writes results as JSON.
Runs on Python 3.9 and later, in an environment that holds the tool file's dependencies and nothing of the gateway's.
"""

from __future__ import annotations

import re
from typing import Any

from .api import (
    Context,
    Span,
    batch_execute,
    cache,
    call_tool,
    format_batch_results,
    format_error,
    get_config,
    get_pack,
    get_secret,
    log,
    normalize_items,
    report_progress,
    run_command,
    truncate,
)
from .call import ToolError
from .serve import start as start
from .serve import worker_main

__all__ = [
    "Context",
    "Span",
    "ToolError",
    "batch_execute",
    "cache",
    "call_tool",
    "format_batch_results",
    "format_error",
    "get_config",
    "get_pack",
    "get_secret",
    "log",
    "normalize_items",
    "report_progress",
    "run_command",
    "truncate",
    "worker_main",
]

_NOT_PROVIDED = re.compile(
    "http|safe_request|api_headers|check_api_key|(lazy_c|LazyC)lient|(requires|check|ensure)_(cli|lib)|check_deps|"
    "Dependency|DepsCheckResult|get_ot_dir|(expand|get_config|get_project|resolve|resolve_cwd|resolve_ot)_path"
)
"""Names of `ot_sdk` that need more than the standard library, or folders of its own."""


def __getattr__(name: str) -> Any:
    if _NOT_PROVIDED.fullmatch(name):
        hint = "Use a package for it: import it in your file, and list it under dependencies in its script block."
        if "path" in name or name == "get_ot_dir":
            hint = "Use pathlib, and get_config() for what depends on the place."
        raise ImportError(f"jackfield_tool has no '{name}': it has the standard library only. {hint}")
    raise AttributeError(f"module 'jackfield_tool' has no attribute '{name}'. It has: {', '.join(__all__)}.")
