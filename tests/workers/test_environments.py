"""Environments that nobody has used for long are removed, with what uv made for them."""

import json
import os
import time
from pathlib import Path

from jackfield.workers.environments import UNUSED_DAYS, Environments, installer_environment
from jackfield.workers.supervisor import Supervisor


def made(folder: Path, digest: str, *, days: float) -> Path:
    """An environment as it lies on the disk, last used so many days ago; gives where uv has it."""
    environment = folder / "uv" / digest
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").touch()
    (environment / "pyvenv.cfg").touch()
    version = folder / "workers" / digest
    version.mkdir(parents=True)
    mark = version / "tool.ready.json"
    mark.write_text(json.dumps({"python": str(environment / "bin" / "python"), "name": "tool"}))
    used = time.time() - days * 86_400
    os.utime(mark, (used, used))
    return environment


def test_what_was_not_used_for_long_goes_and_the_rest_stays(tmp_path: Path) -> None:
    old = made(tmp_path, "old", days=UNUSED_DAYS + 1)
    recent = made(tmp_path, "recent", days=1)
    running = made(tmp_path, "running", days=UNUSED_DAYS + 1)
    Environments(tmp_path / "workers", supervisor=Supervisor()).sweep(in_use={"running"})
    assert [path.exists() for path in (old, recent, running)] == [False, True, True]
    assert sorted(path.name for path in (tmp_path / "workers").iterdir()) == ["recent", "running"]


def test_a_mark_that_cannot_be_read_never_removes_anything_but_its_own_folder(tmp_path: Path) -> None:
    version = tmp_path / "workers" / "broken"
    version.mkdir(parents=True)
    (version / "tool.ready.json").write_text("{")
    os.utime(version / "tool.ready.json", (0, 0))
    (tmp_path / "precious").touch()
    Environments(tmp_path / "workers", supervisor=Supervisor()).sweep(in_use=set())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "workers"]
    assert not version.exists()


def test_the_installer_gets_what_it_needs_to_reach_an_index_and_no_secret() -> None:
    ours = {"PATH": "/bin", "UV_INDEX_URL": "u", "https_proxy": "p", "SSL_CERT_FILE": "c", "OPENAI_API_KEY": "sk"}
    assert installer_environment(ours) == {key: ours[key] for key in ours if key != "OPENAI_API_KEY"}
