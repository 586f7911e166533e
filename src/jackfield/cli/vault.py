"""`jackfield vault`: how the vault stands, and a new key for it."""

from argparse import Namespace
from collections.abc import Iterator

from jackfield.cli.options import CONFIG, GATEWAY, JSON, argument, command
from jackfield.cli.output import print_either
from jackfield.cli.target import connect
from jackfield.model.text import counted
from jackfield.sdk.vault import VaultInfo

_PLACES = {
    "environment": "JACKFIELD_VAULT_KEY",
    "file": "vault.key in the data folder",
    "memory": "memory; it ends with the gateway",
}


@command(
    """\
Show how the vault stands, or give it a new key. Needs an admin key.

The vault has the logins of sources, encrypted with AES-256-GCM. With a key file, 'rotate' makes a new key and seals
everything with it. With JACKFIELD_VAULT_KEY, first set it to NEW,OLD and restart every gateway; 'rotate' then seals
everything with NEW, after which OLD can be left out. Calls and logins go on meanwhile.""",
    argument(
        "action",
        nargs="?",
        choices=("status", "rotate"),
        default="status",
        metavar="ACTION",
        help="status (default) or rotate",
    ),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield vault
  jackfield vault rotate""",
)
async def vault(options: Namespace) -> int:
    async with connect(options) as client:
        if options.action == "rotate":
            done = await client.vault.rotate()
            sealed = counted(done.resealed, "secret")
            print_either(options, done, [f"Sealed {sealed} with the key {done.key_id}."])
        else:
            found = await client.vault.status()
            print_either(options, found, status_lines(found))
    return 0


def status_lines(found: VaultInfo) -> Iterator[str]:
    if found.key == "none":
        yield "The vault is not in use: no source has auth."
        return
    yield f"{counted(found.entries, 'secret')}, AES-256-GCM."
    yield f"Key {found.key_id}, from {_PLACES.get(found.key, found.key)}."
    if found.old:
        yield f"Of these, {found.old:,} sealed with an old key. Run: jackfield vault rotate"
