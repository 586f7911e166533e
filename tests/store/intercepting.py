"""Something else in place of one transaction of a store."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from jackfield.store import Store

Act = Callable[..., Awaitable[Any]]
_acting: ContextVar[bool] = ContextVar("acting", default=False)


def intercept(patch: pytest.MonkeyPatch, store: Store, script: Callable[..., Any], act: Act) -> None:
    """Call `act` with the script's arguments whenever the store is to run the script."""
    for name in ("write", "read"):
        patch.setattr(store, name, partial(_run, getattr(store, name), script, act))


def _run(plain: Callable[[Any], Awaitable[Any]], script: Callable[..., Any], act: Act, given: Any) -> Awaitable[Any]:
    if _acting.get():  # a store may read by writing: what `act` itself runs is not intercepted again
        return plain(given)
    if isinstance(given, partial) and given.func is script:
        return asyncio.ensure_future(_act(act, *given.args, **given.keywords))
    if given is script or type(given) is script:
        return asyncio.ensure_future(_act(act))
    return plain(given)


async def _act(act: Act, *args: Any, **kwargs: Any) -> Any:
    _acting.set(True)  # only in the task that was made for it
    return await act(*args, **kwargs)
