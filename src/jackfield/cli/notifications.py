"""`jackfield notifications`: what targets were told of, what failed, once more, and a test."""

from argparse import Namespace
from collections.abc import Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, table
from jackfield.cli.paging import PAGING, print_more, read_pages
from jackfield.cli.target import connect
from jackfield.sdk.client import Client
from jackfield.sdk.notifications import NotificationInfo, NotifyTargetInfo

PAGE = 500


@command(
    """\
List notifications, the newest first, and what became of them; list the targets of [notify] and what waits for each;
deliver one that was given up; or send a test message to a target. For administrators.

A notification is delivered at least once and in order per target. What a target refuses, or what could not be
delivered for a day (give_up_after), has failed; 'retry' delivers it.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "targets", "retry", "test"),
        default="list",
        metavar="ACTION",
        help="list (default), targets, retry or test",
    ),
    argument("name", nargs="?", metavar="ID|NAME", help="for retry: a notification; for test: a target"),
    argument("--failed", action="store_true", help="list those that were given up"),
    argument("--target", metavar="NAME", help="list those for one target"),
    *PAGING,
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield notifications --failed
  jackfield notifications retry msg_019…
  jackfield notifications test ops""",
)
async def notifications(options: Namespace) -> int:
    if options.action in ("retry", "test") and options.name is None:
        wanted = "the id of a notification" if options.action == "retry" else "the name of a target"
        raise UsageError(f"'{options.action}' needs {wanted}. Add it.")
    if options.action in ("list", "targets") and options.name is not None:
        raise UsageError(f"'{options.action}' takes no name. Leave it out; --target NAME lists those for one target.")
    async with connect(options) as client:
        match options.action:
            case "list":
                await _list(client, options)
            case "targets":
                targets = await client.notifications.targets()
                print_either(options, {"targets": targets}, target_lines(targets))
            case "retry":
                retried = await client.notifications.retry(options.name)
                told = f"{escape(retried.id)} will be delivered to {escape(retried.target)}."
                print_either(options, {"notification": retried}, [told])
            case _:
                return await _test(client, options)
    return 0


async def _list(client: Client, options: Namespace) -> None:
    async def read(limit: int, cursor: str | None) -> tuple[Sequence[NotificationInfo], str | None]:
        page = await client.notifications.list(
            status="failed" if options.failed else None, target=options.target, limit=limit, cursor=cursor
        )
        return page.notifications, page.next_cursor

    found, cursor = await read_pages(options, read, page_size=PAGE)
    print_either(options, {"notifications": found, "next_cursor": cursor}, list_lines(found, failed=options.failed))
    print_more(options, cursor)


async def _test(client: Client, options: Namespace) -> int:
    result = await client.notifications.test(options.name)
    told = "took the message." if result.success else f"did not take the message: {escape(result.error or '')}"
    print_either(options, result, [f"{escape(options.name)} {told}"])
    return 0 if result.success else 1


def list_lines(found: Sequence[NotificationInfo], *, failed: bool) -> list[str]:
    """Id, target, what happened, status, when, and why it was not delivered."""
    if not found:
        return ["No notification has failed." if failed else "There are no notifications."]
    rows = [
        (
            escape(one.id),
            escape(one.target),
            escape(one.type),
            escape(one.status),
            str(one.attempts),
            one.created_at or "-",
            escape(one.error or ""),
        )
        for one in found
    ]
    header = ("ID", "TARGET", "EVENT", "STATUS", "ATTEMPTS", "CREATED", "ERROR")
    return table(rows, header=header, styles=("bold",))


def target_lines(targets: Sequence[NotifyTargetInfo]) -> list[str]:
    """Name, kind, events, what waits and what failed."""
    if not targets:
        return ["There are no targets. Add [notify.NAME] to the config."]
    rows = [
        (escape(one.name), escape(one.kind), str(one.waiting), str(one.failed), escape(" ".join(one.on)))
        for one in targets
    ]
    return table(rows, header=("NAME", "KIND", "WAITING", "FAILED", "ON"), styles=("bold",))
