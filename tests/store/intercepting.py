"""Something else in place of one transaction of a store."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from jackfield.store import Store

Act = Callable[..., Awaitable[Any]]


def intercept(patch: pytest.MonkeyPatch, store: Store, script: Callable[..., Any], act: Act) -> None:
    """Call `act` with the script's arguments whenever the store is to run the script."""
    for name in ("write", "read"):
        patch.setattr(store, name, partial(_run, getattr(store, name), script, act))


def _run(plain: Callable[[Any], Awaitable[Any]], script: Callable[..., Any], act: Act, given: Any) -> Awaitable[Any]:
    if isinstance(given, partial) and given.func is script:
        return asyncio.ensure_future(act(*given.args, **given.keywords))
    if given is script or type(given) is script:
        return asyncio.ensure_future(act())
    return plain(given)
