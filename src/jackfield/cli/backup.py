"""`jackfield backup` and `jackfield restore`, on the machine of the gateway."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from jackfield.backup.restoring import Restored
from jackfield.backup.restoring import restore as restore_files
from jackfield.backup.saving import Saved, save
from jackfield.cli.options import JSON, argument, command
from jackfield.cli.output import escape, print_either, style
from jackfield.model.text import counted
from jackfield.settings import load_project

POSTGRESQL = "postgresql"
_KILO = 1000


@command(
    """\
Copy the database, the config and the files that it names into one file. Run it on the machine of the gateway, which
may be running: the copy is the database at one moment, with every call that was acknowledged before.

Not in it: admin.key, vault.key and secrets.toml of the data folder. Keep vault.key, or JACKFIELD_VAULT_KEY, somewhere
else: without it, the encrypted secrets of a backup cannot be read. A PostgreSQL database is not in it either; dump it
with pg_dump.""",
    argument("file", metavar="FILE", help="a new file; it is readable only by its owner"),
    argument("--config", metavar="FILE", help="the gateway's config (default: the one of this folder)"),
    JSON,
    examples="""\
  jackfield backup /var/backups/jackfield.tar.gz
  jackfield backup monday.tar.gz --config /etc/jackfield/jackfield.toml""",
)
def backup(options: Namespace) -> int:
    saved = save(load_project(options.config), Path(options.file))
    print_either(options, saved, saved_lines(saved))
    return 0


@command(
    """\
Write the files of a backup into a folder, and its database where the config there says. All of the backup is checked
first. Existing files that differ are not overwritten, unless with --force; the gateway must not be running.

Put vault.key into the data folder, or set JACKFIELD_VAULT_KEY, before you start the gateway, which makes a new
admin.key.""",
    argument("file", metavar="FILE", help="a file that 'jackfield backup' wrote"),
    argument("folder", nargs="?", default=".", metavar="FOLDER", help="where to (default: this folder)"),
    argument("--force", action="store_true", help="overwrite what is there"),
    JSON,
    examples="""\
  jackfield restore /var/backups/jackfield.tar.gz /srv/jackfield
  jackfield restore monday.tar.gz --force""",
)
def restore(options: Namespace) -> int:
    restored = restore_files(Path(options.file), Path(options.folder), is_forced=options.force)
    print_either(options, restored, restored_lines(restored))
    return 0


def saved_lines(saved: Saved) -> Iterator[str]:
    database = "the database and " if saved.has_database else ""
    size = f"{saved.size / _KILO:,.0f} KB"
    yield f"Wrote {style(escape(saved.file), 'bold')} ({size}): {database}{counted(len(saved.files), 'file')}."
    if saved.store == POSTGRESQL:
        yield "The database is PostgreSQL's and not in it. Dump it too: pg_dump --format=custom"
    elif not saved.has_database:
        yield "There is no database in it: the gateway has none on this machine."
    yield from _left_out(saved.left_out)
    yield "Not in it: admin.key, vault.key and secrets.toml. Keep vault.key or JACKFIELD_VAULT_KEY somewhere else."


def restored_lines(restored: Restored) -> Iterator[str]:
    files = counted(len(restored.files), "file")
    yield f"Restored {files} of {restored.created_at} to {style(escape(restored.folder), 'bold')}."
    if restored.database is not None:
        yield f"Restored the database {escape(restored.database)}."
    elif restored.store == POSTGRESQL:
        yield "The database is PostgreSQL's. Restore it too: pg_restore, from a dump of pg_dump"
    yield from _left_out(restored.left_out)
    yield "Before you start the gateway, put vault.key and secrets.toml into the data folder, if there were such files,"
    yield "or set JACKFIELD_VAULT_KEY. The gateway makes a new admin.key."


def _left_out(names: list[str]) -> Iterator[str]:
    if names:
        yield f"Outside of the config's folder, and not in it: {escape(', '.join(names))}"
