"""`jackfield backup` and `restore`: what is in a backup and what never is, and which backups are not restored."""

import gzip
import io
import os
import tarfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from jackfield.backup.archive import CONTENTS, BackupError, is_safe
from jackfield.backup.restoring import restore
from jackfield.backup.saving import save
from jackfield.cli.backup import backup, restored_lines, saved_lines
from jackfield.cli.backup import restore as restore_command
from jackfield.settings import Project, load_project
from jackfield.store.sqlite import SqliteStore, take_lock
from tests.requirement import requirement

CONFIG = """
[server]
port = 8420
[auth.keys.ops]
key = "${NOT_SET_HERE}"
scopes = ["admin"]
[sources.local]
kind = "files"
path = ["tools/*.py", "more/one.py"]
[sources.far]
kind = "skills"
path = "SKILLS"
[sources.shop]
kind = "openapi"
file = "shop.json"
[sources.outside]
kind = "openapi"
file = "OUTSIDE"
[sources.server]
kind = "mcp"
command = "python3"
args = ["server.py", "--folder", "."]
[[hooks]]
python = "hook.py:check"
"""
FILES = {
    "tools/a.py": "def a() -> str: ...",
    "tools/words.txt": "beside the tools",
    "tools/__pycache__/a.pyc": "compiled",
    "tools/.env": "hidden",
    "more/one.py": "",
    "more/two.py": "not named",
    "skills/x/SKILL.md": "# X",
    "shop.json": "{}",
    "server.py": "",
    "hook.py": "",
    ".jackfield/admin.key": "the administrator's",
    ".jackfield/vault.key": "the vault's",
    ".jackfield/secrets.toml": 'A = "a secret"',
}
KEPT = {
    "hook.py",
    "jackfield.toml",
    "more/one.py",
    "server.py",
    "shop.json",
    "skills/x/SKILL.md",
    "tools/a.py",
    "tools/words.txt",
}


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    """A project with a database, in `here`."""
    folder = tmp_path / "here"
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    config = CONFIG.replace("SKILLS", str(folder / "skills")).replace("OUTSIDE", str(elsewhere))
    (folder / "jackfield.toml").write_text(config)
    store = SqliteStore(folder / ".jackfield" / "jackfield.db")
    await store.open()
    await store.close()
    return load_project(folder, environment={})


def kept(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@requirement("OPS-backup-contents")
def test_a_backup_has_the_database_the_config_and_its_files_and_never_the_keys(
    project: Project, tmp_path: Path
) -> None:
    file = tmp_path / "b.tar.gz"
    saved = save(project, file)
    assert set(saved.files) == KEPT
    assert saved.has_database
    assert saved.left_out == [str(tmp_path / "elsewhere.json")]
    assert file.stat().st_mode & 0o777 == 0o600
    raw = gzip.decompress(file.read_bytes())
    assert not [text for text in ("the administrator's", "the vault's", "a secret") if text.encode() in raw]
    restored = restore(file, tmp_path / "there", environment={})
    database = ".jackfield/jackfield.db"
    assert kept(tmp_path / "there") == KEPT | {database, f"{database}.lock"}
    assert (tmp_path / "there" / database).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "there/jackfield.toml").read_text() == (project.folder / "jackfield.toml").read_text()
    assert restored.database == str((tmp_path / "there" / database).resolve())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "elsewhere.json", "here", "there"]


@requirement("OPS-restore-force")
def test_nothing_is_overwritten_without_force_and_leftovers_of_another_database_go(
    project: Project, tmp_path: Path
) -> None:
    file = tmp_path / "b.tar.gz"
    save(project, file)
    with pytest.raises(BackupError, match="exists"):
        save(project, file)
    there = tmp_path / "there"
    restore(file, there, environment={})
    (there / "tools/a.py").write_text("changed")
    database = there / ".jackfield/jackfield.db"
    wal = database.with_name("jackfield.db-wal")
    wal.write_text("of another database")
    with pytest.raises(BackupError, match=r"would overwrite .*a\.py.*--force"):
        restore(file, there, environment={})
    assert (there / "tools/a.py").read_text() == "changed"
    restore(file, there, is_forced=True, environment={})
    assert (there / "tools/a.py").read_text() == FILES["tools/a.py"]
    assert not wal.exists()
    handle = take_lock(database)
    try:
        with pytest.raises(BackupError, match=r"Another gateway .* Stop it"):
            restore(file, there, is_forced=True, environment={})
    finally:
        os.close(handle)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-2000])


def without_end(file: Path) -> None:
    rewrite(file, lambda name, content: None if name == CONTENTS else content)


def changed(file: Path) -> None:
    rewrite(file, lambda name, content: content + b" " if name.endswith("a.py") else content)


def missing(file: Path) -> None:
    rewrite(file, lambda name, content: None if name.endswith("a.py") else content)


def no_archive(file: Path) -> None:
    file.write_text("hello")


def rewrite(file: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    with tarfile.open(file) as tar:
        members = [(member.name, content.read()) for member in tar if (content := tar.extractfile(member))]
    with tarfile.open(file, "w:gz") as tar:
        for name, old in members:
            new = change(name, old)
            if new is not None:
                info = tarfile.TarInfo(name)
                info.size = len(new)
                tar.addfile(info, io.BytesIO(new))


@requirement("OPS-restore-checked")
@pytest.mark.parametrize("spoil", [cut, without_end, changed, missing, no_archive])
def test_a_spoiled_backup_is_not_restored(project: Project, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    file = tmp_path / "b.tar.gz"
    save(project, file)
    spoil(file)
    with pytest.raises(BackupError, match=r"not a backup|changed or damaged"):
        restore(file, tmp_path / "there", environment={})
    assert kept(tmp_path / "there") == set()


@requirement("OPS-restore-checked")
@pytest.mark.parametrize(
    "name", ["project/../x", "/etc/x", "other/x", "project//x", "project/./x", "x", "project/", "database/x"]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    assert not is_safe(name)


def test_a_folder_without_anything_has_nothing_to_back_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackupError, match="neither a config nor a database"):
        save(load_project(environment={}), tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


@requirement("OPS-backup-postgres")
def test_of_postgresql_it_has_what_pg_dump_leaves_out(project: Project, tmp_path: Path) -> None:
    environment = {"JACKFIELD_STORE": "postgresql://example.invalid/x"}
    saved = save(load_project(project.path, environment=environment), tmp_path / "b.tar.gz")
    assert (saved.has_database, saved.store, set(saved.files)) == (False, "postgresql", KEPT)
    assert any("pg_dump" in line for line in saved_lines(saved))
    restored = restore(tmp_path / "b.tar.gz", tmp_path / "there", environment=environment)
    assert restored.database is None
    assert any("pg_restore" in line for line in restored_lines(restored))
    assert kept(tmp_path / "there") == KEPT


def test_the_commands(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "b.tar.gz")

    def options(*words: str, of: str) -> Namespace:
        return (backup if of == "backup" else restore_command).read(of, list(words))

    assert backup.run(options(file, "--config", str(project.path), of="backup")) == 0
    assert f"Wrote {file}" in (told := capsys.readouterr().out)
    assert "Outside of the config's folder" in told
    assert restore_command.run(options(file, str(tmp_path / "there"), "--json", of="restore")) == 0
    assert '"database"' in capsys.readouterr().out
