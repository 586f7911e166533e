"""`jackfield users`: who signed in by the provider, and signing somebody out."""

from argparse import Namespace
from collections.abc import Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, table
from jackfield.cli.target import connect
from jackfield.sdk.users import UserInfo


@command(
    """\
List the people who signed in by the provider of [auth.oidc], or sign one out everywhere. Needs an admin key.

'sign-out' ends all logins and tokens of a person and cancels their waiting calls, at every gateway. They can sign in
again as long as the provider and [auth.roles] let them.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "sign-out"),
        default="list",
        metavar="ACTION",
        help="list (default) or sign-out",
    ),
    argument("user", nargs="?", metavar="USER", help="the person: user:SUB, as 'list' shows it"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield users
  jackfield users sign-out user:ada""",
)
async def users(options: Namespace) -> int:
    if options.action == "sign-out" and options.user is None:
        raise UsageError("'sign-out' needs the id of a person. Add it; 'jackfield users' lists them.")
    if options.action == "list" and options.user is not None:
        raise UsageError("'list' takes no id. Leave it out.")
    async with connect(options) as client:
        if options.action == "list":
            found = await client.users.list()
            print_either(options, {"users": found}, list_lines(found))
        else:
            await client.users.sign_out(options.user)
            print_either(options, {"signed_out": options.user}, [f"Signed out {escape(options.user)} everywhere."])
    return 0


def list_lines(found: Sequence[UserInfo]) -> list[str]:
    """Id, name, email, roles, and when they signed in or were signed out."""
    if not found:
        return ["Nobody has signed in yet."]
    rows = [
        (escape(user.id), escape(user.name), escape(user.email or "-"), escape(" ".join(user.roles)), _since(user))
        for user in found
    ]
    return table(rows, header=("ID", "NAME", "EMAIL", "ROLES", "LAST"), styles=("bold",))


def _since(user: UserInfo) -> str:
    if user.signed_out_at is not None:
        return f"signed out {user.signed_out_at}"
    return f"signed in {user.signed_in_at}"
