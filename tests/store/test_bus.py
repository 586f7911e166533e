"""Wake-ups within one gateway, and what of them comes from others."""

from collections.abc import Sequence

from jackfield.store.bus import Bus


def hearing(bus: Bus) -> list[Sequence[str] | None]:
    heard: list[Sequence[str] | None] = []
    bus.on_foreign(heard.append)
    return heard


def test_what_another_gateway_tells_wakes_who_waits_and_is_heard() -> None:
    bus = Bus()
    first, second = hearing(bus), hearing(bus)
    with bus.listen("call_a") as waited_for, bus.listen("call_b") as another:
        bus.hear(["call_a", "call_c"])
        assert (waited_for.is_set(), another.is_set()) == (True, False)
    assert first == second == [["call_a", "call_c"]]


def test_what_is_published_here_is_not_from_others() -> None:
    bus = Bus()
    heard = hearing(bus)
    bus.publish("call_a")
    assert heard == []


def test_who_hears_is_told_when_something_may_be_missing() -> None:
    bus = Bus()
    heard = hearing(bus)
    with bus.listen("call_a") as waited_for:
        bus.wake_all()
        assert waited_for.is_set()
    assert heard == [None]
