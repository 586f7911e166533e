"""A resolver that a test writes, in place of DNS."""

from collections.abc import Mapping


class Names:
    """`Names({"open.example": "127.0.0.1"})`; a list of lists answers differently each time, the last one for good."""

    def __init__(self, known: Mapping[str, str | list[list[str]]]) -> None:
        self._known = known
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> list[str]:
        times = self.asked.count(host)
        self.asked.append(host)
        answer = self._known.get(host)
        if answer is None:
            raise OSError(-2, "Name or service not known")
        return [answer] if isinstance(answer, str) else answer[min(times, len(answer) - 1)]
