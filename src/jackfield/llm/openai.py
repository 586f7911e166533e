"""Models behind a chat-completions server: vLLM, Ollama, llama.cpp, OpenAI and their like.

Above: whoever asks a `Model`. Below: `wire.py` for the bytes, `chat_request.py` and `chat_stream.py` for what they
mean, `retries.py` for when to ask again. The openai SDK is not used: with it the first token took twice as long, and
its stream of typed chunks takes several times the CPU of all that is done here.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from jackfield.errors import JackfieldError
from jackfield.llm.chat_request import chat_body, has_tool_images
from jackfield.llm.chat_stream import BrokenStream, ChatStream, ProviderError
from jackfield.llm.retries import Breaker, Failures, RetryPolicy, is_about_images
from jackfield.llm.types import Delta, ModelFailed, ModelRequest, OpenAIOptions, StepEnd, TokenCount

T = TypeVar("T")


class HttpAnswer(Protocol):
    """An answer whose body is still to be read."""

    status: int

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Send(Protocol):
    """Sends one request. `named_by` is the url in the operator's config that asks for it."""

    async def __call__(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None, named_by: str | None
    ) -> HttpAnswer: ...


class Patience:
    """`asyncio.timeout` for a wait that recurs: one timer for a whole stream, not one for each of its pieces."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._waiting: asyncio.Task[object] | None = None
        self._is_lost = False
        self._timer: asyncio.TimerHandle | None = None

    async def next(self, pieces: AsyncGenerator[T, None] | AsyncIterator[T]) -> T | None:
        """The next piece, None at the end. Raises `TimeoutError` if it takes longer than `seconds`."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        self._since, self._waiting, self._is_lost = self._loop.time(), task, False
        if self._timer is None:
            self._timer = self._loop.call_later(self.seconds, self._look)
        try:
            return await anext(pieces, None)
        except asyncio.CancelledError:
            if self._is_lost and task.uncancel() <= cancelled_before:
                raise TimeoutError from None
            raise
        finally:
            self._waiting = None

    def shorten(self, seconds: float) -> None:
        """From now on, wait no longer than this."""
        if seconds < self.seconds:
            self.seconds = seconds
            self.end()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._waiting is None:
            return  # the reader is busy elsewhere; its next wait sets the timer again
        left = self._since + self.seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._is_lost = True
            self._waiting.cancel()


log = logging.getLogger("jackfield.llm")

AFTER_THE_END = 5.0
"""Seconds that a server has for its token counts after it said why it stopped."""
TO_HANG_UP = 0.1
"""Seconds that a server has to end a whole answer, so that its connection can be used again."""
MAX_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""
_NEW_SPELLING = (".openai.com", ".azure.com")
"""Hosts that know the limit of tokens by its newer name only."""


class OpenAIModel:
    """One model at one server."""

    def __init__(
        self,
        name: str,
        options: OpenAIOptions,
        *,
        send: Send,
        chance: Callable[[], float] = random.random,
        tokens: TokenCount | None = None,
    ) -> None:
        self.name = name
        self._tokens = tokens or TokenCount()
        self._options = options
        self._chance = chance
        self._failures = Failures(name, options)
        self._retries = RetryPolicy(
            retries=options.max_retries, delay=options.retry_delay, max_delay=options.max_retry_delay
        )
        self._breaker = Breaker(name, failures=options.breaker_failures, seconds=options.breaker_seconds)
        self._way_out = send
        self._url = _chat_url(options.base_url)
        self._headers = _headers(options)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        is_probe = self._breaker.enter()
        try:
            async with aclosing(self._answer(request)) as deltas:
                async for delta in deltas:
                    yield delta
        except ModelFailed as fault:
            self._breaker.failed(fault)
            raise
        finally:
            if is_probe:
                self._breaker.probe_ended()

    async def close(self) -> None:
        pass

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """One request. Refused for a tool's images, it is made once more without them, which the model is told."""
        may_go_blind = self._options.tool_images != "none" and has_tool_images(request.items)
        first = _encoded(request, self._options)
        try:
            async with aclosing(self._with_retries(first, but_not_for_images=may_go_blind)) as deltas:
                async for delta in deltas:
                    yield delta
        except ModelFailed as fault:
            if not may_go_blind or not is_about_images(fault):
                raise
            log.warning("%s Asking again without the images of tools.", fault.message)
        else:
            return
        blind = msgspec.structs.replace(self._options, tool_images="none")
        async with aclosing(self._with_retries(_encoded(request, blind))) as deltas:
            async for delta in deltas:
                yield delta

    async def _with_retries(self, body: bytes, *, but_not_for_images: bool = False) -> AsyncGenerator[Delta, None]:
        """One request, asked again as long as that may help. Left alone by others meanwhile, it is not asked again."""
        tried = 0
        while True:
            tried += 1
            try:
                async with aclosing(self._ask(body)) as deltas:
                    async for delta in deltas:
                        yield delta
            except ModelFailed as fault:
                wait = self._retries.wait(fault, tried=tried, chance=self._chance())
                if wait is None or self._breaker.is_open or (but_not_for_images and is_about_images(fault)):
                    raise
                log.warning("%s Trying again in %.1f s.", fault.message, wait)
            else:
                return
            await asyncio.sleep(wait)

    async def _ask(self, body: bytes) -> AsyncGenerator[Delta, None]:
        """One request, without a second try."""
        response = await self._send(body)
        answer = _Answer(response, self._failures, silence=self._options.timeout)
        try:
            while (deltas := await answer.read()) is not None:
                if deltas:
                    self._breaker.succeeded()
                for delta in deltas:
                    yield delta
            last = answer.end()
            self._breaker.succeeded()
            for delta in last:
                if isinstance(delta, StepEnd):
                    self._tokens.add(delta.usage)
                yield delta
            await answer.hang_up()
        finally:
            await answer.close()

    async def _send(self, body: bytes) -> HttpAnswer:
        try:
            async with asyncio.timeout(self._options.timeout):
                answer = await self._way_out(
                    "POST", self._url, headers=self._headers, content=body, named_by=self._options.base_url
                )
                if 200 <= answer.status < 300:  # noqa: PLR2004 - what HTTP calls success
                    return answer
                said = await _beginning_of(answer)
        except TimeoutError:
            raise self._failures.silent(self._options.timeout, before_first_token=True) from None
        except JackfieldError as fault:
            raise self._failures.unreachable(fault) from None
        raise self._failures.answered(answer.status, said, after=answer.headers.get("retry-after"))


class _Answer:
    """The server's answer as it comes in, with every fault in our words."""

    def __init__(self, response: HttpAnswer, failures: Failures, *, silence: float) -> None:
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._failures = failures
        self._chat = ChatStream()
        self._patience = Patience(silence)
        self._whole: list[bytes] | None = [] if _is_plain_json(response) else None
        self._has_said = False

    async def read(self) -> list[Delta] | None:
        """What the next bytes say; None when the answer has ended."""
        if self._chat.is_complete:
            return None
        try:
            piece = await self._patience.next(self._pieces)
        except TimeoutError:
            if self._chat.is_answered:
                return None
            raise self._failures.silent(self._patience.seconds, before_first_token=not self._has_said) from None
        except JackfieldError as fault:
            if self._chat.is_answered:
                return None
            raise self._failures.unreachable(fault, before_first_token=not self._has_said) from None
        return None if piece is None else self._understand(piece)

    def end(self) -> list[Delta]:
        """The last deltas."""
        try:
            deltas = self._chat.feed_whole(b"".join(self._whole)) if self._whole is not None else []
            return deltas + self._chat.end()
        except (BrokenStream, ProviderError) as fault:
            raise self._in_our_words(fault) from None

    async def hang_up(self) -> None:
        """Read to the end of a whole answer if it is near, so that the connection can be used again."""
        self._patience.shorten(TO_HANG_UP)
        try:
            while await self._patience.next(self._pieces) is not None:
                pass
        except (TimeoutError, JackfieldError):
            return  # the answer is whole all the same; the connection is not kept

    async def close(self) -> None:
        self._patience.end()
        await self._response.aclose()

    def _understand(self, piece: bytes) -> list[Delta]:
        if self._whole is not None:
            self._whole.append(piece)
            return []
        try:
            deltas = self._chat.feed(piece)
        except (BrokenStream, ProviderError) as fault:
            raise self._in_our_words(fault) from None
        if deltas:
            self._has_said = True
        if self._chat.is_answered:
            self._patience.shorten(AFTER_THE_END)
        return deltas

    def _in_our_words(self, fault: BrokenStream | ProviderError) -> ModelFailed:
        if isinstance(fault, ProviderError):
            return self._failures.in_stream(fault.body, before_first_token=not self._has_said)
        return self._failures.broken(str(fault), before_first_token=not self._has_said)


def _chat_url(base_url: str) -> str:
    """Where completions are, with the query that some servers want on every request."""
    base = urlsplit(base_url)
    return urlunsplit(base._replace(path=f"{base.path.rstrip('/')}/chat/completions"))


def _headers(options: OpenAIOptions) -> dict[str, str]:
    """What every request carries; the operator's word is last."""
    headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if options.api_key is not None:
        headers["authorization"] = f"Bearer {options.api_key}"
    return headers | {name.lower(): value for name, value in options.headers.items()}


async def _beginning_of(answer: HttpAnswer) -> bytes:
    """Enough of an error's body to quote it."""
    said = b""
    try:
        async for piece in answer.aiter_bytes():
            said += piece
            if len(said) > MAX_ERROR:
                break
    finally:
        await answer.aclose()
    return said


def _encoded(request: ModelRequest, options: OpenAIOptions) -> bytes:
    host = f".{urlsplit(options.base_url).hostname or ''}"
    limit_key = "max_completion_tokens" if host.endswith(_NEW_SPELLING) else "max_tokens"
    body = chat_body(request, model=options.model, limit_key=limit_key, tool_images=options.tool_images)
    if options.include_usage:
        body["stream_options"] = {"include_usage": True}
    return msgspec.json.encode(body | options.body)


def _is_plain_json(response: HttpAnswer) -> bool:
    """A server that does not stream, though asked to."""
    return response.headers.get("content-type", "").startswith("application/json")
