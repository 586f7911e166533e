"""Processes that are kept ready for programs."""

from pathlib import Path

from jackfield.programs.pool import ProgramPool
from jackfield.settings.types import ProgramSettings
from jackfield.workers.host import WorkerHost
from tests.requirement import requirement


@requirement("PROG-HOSTILE")
async def test_what_is_to_be_hidden_is_looked_at_for_each_process(tmp_path: Path) -> None:
    """How a process is started is worked out once; not again, unless there is something new to hide."""
    secret = tmp_path / "secret"
    host = WorkerHost(tmp_path / "workers", redact=str, hidden=(secret,))
    pool = ProgramPool(host, ProgramSettings(enabled=True))
    plans = []
    for _ in range(2):
        process = await pool.take()
        plans.append(process.plan)
        process.kill()
    secret.write_text("hidden from now on")
    last = await pool.take()
    last.kill()
    await pool.close()
    await host.supervisor.close()
    assert plans[0] is plans[1]
    assert last.plan is not plans[1]
