"""examples/cluster: balancer, gateways on PostgreSQL, workers; calls go on when a gateway is killed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT

from tests.harness.process import clean_environment, free_port
from tests.requirement import requirement
from tests.waiting import eventually

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
WITHIN = 60
CALLS = 120


@requirement("SCALE-example-cluster")
def test_calls_go_on_when_a_gateway_of_the_example_is_killed(tmp_path: Path, postgres_url: str) -> None:
    with running_cluster(tmp_path, postgres_url) as (environment, log):
        [pid] = re.findall(r"gateway-2: pid (\d+)", log.read_text())
        before, elsewhere, during = load(environment), load(environment, tool="invoice"), load(environment)
        assert len(gateways(before)) == 3
        gateways(elsewhere)
        os.kill(int(pid), signal.SIGKILL)
        gateways(during)
        eventually(lambda: "gateway-2 ended with -9, and is started anew." in log.read_text())


@contextmanager
def running_cluster(folder: Path, store: str) -> Iterator[tuple[dict[str, str], Path]]:
    """The environment of its clients, and what it printed."""
    port, log = free_port(), folder / "printed"
    options = ["--store", store, "--port", str(port), "--folder", str(folder / "cluster"), "--workers", "1"]
    with log.open("wb") as file:
        command = [sys.executable, "cluster.py", *options]
        cluster = subprocess.Popen(command, cwd=CLUSTER, env=clean_environment(), stdout=file, stderr=file)
    try:
        eventually(lambda: "ready\n" in log.read_text() or cluster.poll() is not None, within=WITHIN)
        assert cluster.poll() is None, log.read_text()
        key = (folder / "cluster" / "admin.key").read_text()
        yield clean_environment({"JACKFIELD_URL": f"http://127.0.0.1:{port}", "JACKFIELD_KEY": key}), log
    finally:
        cluster.terminate()
        assert cluster.wait(WITHIN) == 0, log.read_text()


def load(environment: dict[str, str], *, tool: str = "price") -> subprocess.Popen[str]:
    command = [sys.executable, "load.py", "--calls", str(CALLS), "--tool", tool]
    return subprocess.Popen(command, cwd=CLUSTER, env=environment, stdout=PIPE, stderr=STDOUT, text=True)


def gateways(client: subprocess.Popen[str]) -> dict[str, int]:
    """How often each gateway answered; all calls are right."""
    printed, _ = client.communicate(timeout=WITHIN)
    assert client.returncode == 0, printed
    assert f"right: {CALLS}\n" in printed
    return {gateway: int(count) for gateway, count in re.findall(r"gateway ([\d.:]+): (\d+)", printed)}
