"""The places that a source has for calls, where it takes only so many at once (`max_concurrency`)."""

import asyncio
from typing import Self

import msgspec

from jackfield.sources.base import Invocation
from jackfield.sources.client import ClientAnswer, ClientRequest


class CallSlot:
    """One of the places that a source has for calls; free for others while a call waits for a person's answer."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._is_held = self._is_over = False

    async def __aenter__(self) -> Self:
        await self._take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        self._give()

    def lent_to(self, invocation: Invocation) -> Invocation:
        ask = invocation.ask
        if ask is None:
            return invocation

        async def ask_meanwhile(requests: tuple[ClientRequest, ...]) -> tuple[ClientAnswer, ...]:
            self._give()
            try:
                return await ask(requests)
            finally:
                await self._take()

        return msgspec.structs.replace(invocation, ask=ask_meanwhile)

    async def _take(self) -> None:
        if self._lacks_none():
            return
        await self._slots.acquire()
        if self._lacks_none():  # by now
            self._slots.release()
        else:
            self._is_held = True

    def _lacks_none(self) -> bool:
        return self._is_held or self._is_over

    def _give(self) -> None:
        if self._is_held:
            self._is_held = False
            self._slots.release()
