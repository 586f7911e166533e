import asyncio
import threading

from jackfield.sdk import GatewayUnreachable, Progress, progress
from jackfield.sdk.progress import ProgressReporter


def said(number: float) -> Progress:
    return Progress(progress=number, total=None, message=None)


async def test_reports_are_sent_in_order_one_at_a_time_and_the_newest_of_those_that_waited() -> None:
    sent: list[Progress] = []
    sending = asyncio.Event()
    release = asyncio.Event()

    async def send(news: Progress) -> None:
        sent.append(news)
        sending.set()
        await release.wait()

    reporter = ProgressReporter("call_1", send)
    with reporter.active():
        progress(1, total=3, message="first")
        await asyncio.wait_for(sending.wait(), 10)
        progress(2)
        progress(3)
    release.set()
    await reporter.close()
    assert sent == [Progress(progress=1, total=3, message="first"), said(3)]


async def test_a_thread_reports_too_and_the_last_word_is_waited_for() -> None:
    sent: list[Progress] = []

    async def send(news: Progress) -> None:
        await asyncio.sleep(0)
        sent.append(news)

    reporter = ProgressReporter("call_1", send)
    with reporter.active():
        await asyncio.to_thread(progress, 1)
        progress(2)
    await reporter.close()
    assert sent[-1] == said(2)


async def test_a_report_that_is_lost_does_not_stop_the_next() -> None:
    sent: list[Progress] = []

    async def send(news: Progress) -> None:
        sent.append(news)
        raise GatewayUnreachable("away")

    reporter = ProgressReporter("call_1", send)
    with reporter.active():
        for number in (1, 2):
            progress(number)
            await reporter.close()
    assert sent == [said(1), said(2)]


def test_outside_a_served_call_nothing_happens() -> None:
    progress(1, 2, "alone")


def test_a_thread_that_outlives_the_server_may_still_report() -> None:
    release = threading.Event()
    faults: list[BaseException] = []

    def late(reporter: ProgressReporter) -> None:
        release.wait(10)
        try:
            reporter.report(said(1))
        except RuntimeError as fault:
            faults.append(fault)

    async def main() -> threading.Thread:
        async def send(_news: Progress) -> None:
            raise AssertionError

        thread = threading.Thread(target=late, args=(ProgressReporter("call_1", send),))
        thread.start()
        return thread

    thread = asyncio.run(main())
    release.set()
    thread.join(10)
    assert faults == []
