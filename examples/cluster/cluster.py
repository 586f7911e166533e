"""Starts a cluster on this machine: a balancer, gateways, PostgreSQL, and workers for tool files.

    python cluster.py

What ends is started anew. Ctrl-C ends everything. Nothing here is needed to run Jackfield on several machines; what it
does is start processes, and write a config for nginx.
"""

import argparse
import base64
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from database import Database

HERE = Path(__file__).resolve().parent
START_SECONDS = 120
STOP_SECONDS = 20
NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;

events {{
    worker_connections 4096;
}}

http {{
    access_log off;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    client_max_body_size 32m;

    # Whoever is free gets the next request. A gateway that does not answer is left out for 2 seconds.
    upstream gateways {{
        least_conn;
{servers}
        keepalive 64;
    }}

    # MCP clients of revisions before 2026-07-28 have a session, which lives in one gateway: the same for an address.
    upstream gateway_of_a_client {{
        hash $remote_addr consistent;
{servers}
        keepalive 64;
    }}

    map $http_upgrade $connection_upgrade {{
        default upgrade;
        ""      "";
    }}

    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_buffering off;
        proxy_connect_timeout 2s;
        proxy_read_timeout 1h;
        # A request goes to another gateway if this one cannot be reached. A POST that was already sent does not: it may
        # have run. Its caller gets 502, and repeats it with the same Idempotency-Key.
        proxy_next_upstream error timeout;
        add_header X-Gateway $upstream_addr always;

        location / {{
            proxy_pass http://gateways;
        }}
        location /mcp {{
            proxy_pass http://gateway_of_a_client;
        }}
    }}
}}
"""


class Process:
    """A program of the cluster, which is started anew when it ends."""

    def __init__(self, name: str, command: list[object], folder: Path, env: dict[str, str]) -> None:
        self.name = name
        self._command = [str(word) for word in command]
        self._log = folder / f"{name}.log"
        self._env = os.environ | env
        self._process = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=HERE, env=self._env, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    options = _options()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    database = None if options.store else Database(folder, _free_port())
    processes: list[Process] = []
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # ends as Ctrl-C does
    try:
        if database is not None:
            database.start()
        env = {
            "JACKFIELD_STORE": options.store or database.url,
            "WORKER_KEY": _kept(folder / "worker.key", secrets.token_urlsafe(32)),
            "JACKFIELD_ADMIN_KEY": _kept(folder / "admin.key", secrets.token_urlsafe(32)),
            "JACKFIELD_VAULT_KEY": _kept(
                folder / "vault.key", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
            ),
        }
        ports = _serve(options.gateways, folder, env, processes)
        url = f"http://127.0.0.1:{options.port}"
        _balance(ports, options.port, folder, processes)
        _wait_for(f"{url}/healthz", processes[-1], folder)
        _work(options.workers, url, folder, env, processes)
        _say(f"The cluster is up at {url}.")
        _say(f"  export JACKFIELD_URL={url} JACKFIELD_KEY=$(cat {folder / 'admin.key'})")
        for one in processes:
            _say(f"  {one.name}: pid {one.pid}")
        _look_after(processes)
    except KeyboardInterrupt:
        _say("Stopping.")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a terminal sends it to all; who has it ends by itself
        for one in reversed(processes):
            one.stop()
        if database is not None:
            database.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Start a cluster on this machine.")
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes of 'jackfield work', as on other machines")
    parser.add_argument("--port", type=int, default=8420, help="of the balancer")
    parser.add_argument("--store", help="the URL of a PostgreSQL database; default: one of our own")
    parser.add_argument("--folder", type=Path, default=HERE / ".cluster", help="for data, keys and logs")
    return parser.parse_args()


def _serve(count: int, folder: Path, env: dict[str, str], processes: list[Process]) -> list[int]:
    """The gateways; where each listens."""
    ports = [_free_port() for _ in range(count)]
    for number, port in enumerate(ports, start=1):
        name = f"gateway-{number}"
        own = {"JACKFIELD_PORT": str(port), "JACKFIELD_DATA": str(folder / name)}
        _begin(Process(name, [_program("jackfield"), "serve"], folder, env | own), processes)
        if number == 1:  # it makes the tables
            _wait_for(f"http://127.0.0.1:{port}/healthz", processes[0], folder)
    for port, gateway in zip(ports, processes, strict=True):
        _wait_for(f"http://127.0.0.1:{port}/healthz", gateway, folder)
    return ports


def _work(count: int, url: str, folder: Path, keys: dict[str, str], processes: list[Process]) -> None:
    """Tool servers with the files of `elsewhere/`. On another machine nothing but the URL would be different."""
    for number in range(1, count + 1):
        name = f"worker-{number}"
        own = {"JACKFIELD_KEY": keys["WORKER_KEY"], "JACKFIELD_DATA": str(folder / name)}
        command = [_program("jackfield"), "work", "--gateway", url, "--config", HERE / "elsewhere" / "jackfield.toml"]
        _begin(Process(name, command, folder, own), processes)
    if count:
        _wait_for(f"{url}/api/v1/tools/invoice", processes[-1], folder, key=keys["JACKFIELD_ADMIN_KEY"])


def _balance(ports: list[int], port: int, folder: Path, processes: list[Process]) -> None:
    """nginx, with a config for these gateways."""
    servers = "\n".join(f"        server 127.0.0.1:{one} max_fails=1 fail_timeout=2s;" for one in ports)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, servers=servers, port=port))
    command = [_program("nginx"), "-c", config, "-p", folder, "-e", folder / "nginx.log"]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        raise SystemExit(f"nginx does not take {config}:\n{checked.stderr}")
    _begin(Process("nginx", command, folder, {}), processes)


def _look_after(processes: list[Process]) -> None:
    """Until a signal comes, which is looked at between the starts, so that nothing is left behind."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    _say("ready")
    while not stop.wait(0.2):
        for one in processes:
            if (ended := one.ended) is not None:
                one.start()
                _say(f"{one.name} ended with {ended}, and is started anew.")
    _say("Stopping.")


def _begin(process: Process, processes: list[Process]) -> None:
    process.start()
    processes.append(process)


def _wait_for(url: str, process: Process, folder: Path, *, key: str = "") -> None:
    request = urllib.request.Request(url, headers={"x-api-key": key} if key else {})
    end = time.monotonic() + START_SECONDS
    while process.ended is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(request, timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"{process.name} did not start. {folder / process.name}.log says why.")


def _program(name: str) -> str:
    """Beside this Python, on the path, or where Debian has those for root."""
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"))
    found = shutil.which(name, path=places)
    if found is None:
        cure = "apt install nginx" if name == "nginx" else "pip install jackfield"
        raise SystemExit(f"There is no program '{name}'. Install it: {cure}")
    return found


def _kept(path: Path, new: str) -> str:
    """What the file has, or will have from now on."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(new)
    return path.read_text()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
