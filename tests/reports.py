"""A failure is reported whatever happens: where pytest cannot make its own report, a plain traceback stands in.

pytest reads the source of each frame and module as a syntax tree. On CPython before 3.11.8 and
3.12.2 a garbage collection in the middle of that may end in a SystemError (gh-106905) that ends the run, so nothing is
collected meanwhile. Should the report fail all the same, for whatever reason, the test still failed with its own words.
"""

import ast
import traceback
from collections.abc import Generator
from functools import wraps
from typing import Any

import pytest

from jackfield.sources.pyfile.names import HAS_SHARED_DEPTH, safe_parsing

_parse = ast.parse


@wraps(_parse)
def _parse_safe_parsing(*arguments: Any, **options: Any) -> Any:
    with safe_parsing():
        return _parse(*arguments, **options)


if HAS_SHARED_DEPTH:
    ast.parse = _parse_safe_parsing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    try:
        return (yield)
    except Exception as fault:  # noqa: BLE001 - whatever it is, the run goes on and the test is reported
        return _plain_report(item, call, fault)


def _plain_report(item: pytest.Item, call: pytest.CallInfo[None], fault: Exception) -> pytest.TestReport:
    assert call.when != "collect"
    said = f"pytest could not report this as usual: {type(fault).__name__}: {fault}\n"
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed" if call.excinfo else "passed",
        longrepr=said + _plain_traceback(call) if call.excinfo else None,
        when=call.when,
        sections=[(f"Captured {key} {when}", content) for when, key, content in item._report_sections],
        duration=call.duration,
        start=call.start,
        stop=call.stop,
        user_properties=item.user_properties,
    )


def _plain_traceback(call: pytest.CallInfo[None]) -> str:
    assert call.excinfo is not None
    raised = call.excinfo.value
    try:
        return "".join(traceback.format_exception(raised))
    except Exception:  # noqa: BLE001 - not even that: then where it was raised, without the lines themselves
        places = [f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(raised.__traceback__)]
        return "\n".join([*places, f"{type(raised).__name__}"])
