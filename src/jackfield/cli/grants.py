"""`jackfield grants`: which OAuth clients may act for whom, and ending that."""

from argparse import Namespace
from collections.abc import Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, table
from jackfield.cli.target import connect
from jackfield.errors import NotFound
from jackfield.sdk.grants import GrantInfo


@command(
    """\
List the OAuth clients that you allowed to act for you at /mcp, or end what one was allowed. With an admin key,
everybody's.

'revoke' ends the tokens of that consent at every gateway within a second; the client has to ask again.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "revoke"),
        default="list",
        metavar="ACTION",
        help="list (default) or revoke",
    ),
    argument("id", nargs="?", metavar="ID", help="what was allowed: the id that 'list' shows"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield grants
  jackfield grants revoke grant_019…""",
)
async def grants(options: Namespace) -> int:
    if options.action == "revoke" and options.id is None:
        raise UsageError("'revoke' needs an id. Add it; 'jackfield grants' lists them.")
    if options.action == "list" and options.id is not None:
        raise UsageError("'list' takes no id. Leave it out.")
    async with connect(options) as client:
        if options.action == "list":
            try:
                found = await client.grants.list()
            except NotFound:
                raise NotFound(
                    "This gateway asks nobody for consent, so there are no grants: [auth.oauth] mode is "
                    '"external" or "off" there.'
                ) from None
            print_either(options, {"grants": found}, list_lines(found))
        else:
            await client.grants.revoke(options.id)
            print_either(options, {"revoked": options.id}, [f"Revoked {escape(options.id)}."])
    return 0


def list_lines(found: Sequence[GrantInfo]) -> list[str]:
    """Id, client, person, where, what for, since when."""
    if not found:
        return ["No OAuth client was allowed anything."]
    rows = [
        (
            escape(grant.id),
            escape(grant.client or grant.client_id),
            escape(grant.principal),
            escape(grant.resource),
            escape(_rights(grant)),
            grant.used_at or "-",
        )
        for grant in found
    ]
    return table(rows, header=("ID", "CLIENT", "AS", "AT", "MAY", "LAST"), styles=("bold",))


def _rights(grant: GrantInfo) -> str:
    groups = "" if grant.groups is None else f" groups={','.join(grant.groups)}"
    return f"{' '.join(grant.scopes)}{groups}"
