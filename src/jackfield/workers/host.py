"""The worker processes of one gateway: their pools, logs and status.

Above: the sources that need processes, and the API. Below: supervisor, environments, pools.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from jackfield.errors import NotFound
from jackfield.model.text import Time, iso_time
from jackfield.workers.environments import Environments
from jackfield.workers.logs import LogLine, WorkerLog
from jackfield.workers.pool import FileRecord, WorkerPool
from jackfield.workers.sandbox.sandboxes import Sandboxes
from jackfield.workers.supervisor import Supervisor
from jackfield.workers.worker import FileSpec, Worker


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """One process of a worker."""

    pid: int | None
    calls: int
    in_flight: int
    is_retiring: bool
    """It takes no more calls and ends when the running ones are done."""
    idle_seconds: float
    started_at: Time


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """One tool file. `state`: idle (no process), installing, starting, running, crashing; `restarts` counts crashes."""

    name: str
    source: str
    file: str
    version: str
    state: str
    calls: int
    restarts: int
    error: str | None
    processes: list[ProcessRecord]


class WorkerHost:
    """`base`: what the config's relative paths are relative to; `hidden`: what no sandbox shows."""

    def __init__(
        self, folder: Path, *, redact: Callable[[str], str], base: Path | None = None, hidden: Sequence[Path] = ()
    ) -> None:
        self.supervisor = Supervisor()
        self.sandboxes = Sandboxes(self.supervisor, base=Path() if base is None else base, hidden=hidden)
        self._environments = Environments(folder, supervisor=self.supervisor)
        self.redact = redact
        self._records: dict[tuple[str, str], FileRecord] = {}
        self._past_restarts: dict[str, int] = {}
        """By source, of files that are gone."""

    def pool(self, spec: FileSpec) -> WorkerPool:
        """A pool for this version of a file. No process is started."""
        record = self._records.get((spec.source, spec.label))
        if record is None:
            log = WorkerLog(Path(spec.label).stem, redact=self.redact)
            record = self._records[spec.source, spec.label] = FileRecord(spec.source, spec.label, log)
        record.error = None  # it was about another version
        record.pool = WorkerPool(
            spec,
            record,
            supervisor=self.supervisor,
            environments=self._environments,
            sandboxes=self.sandboxes,
        )
        return record.pool

    def forget(self, pool: WorkerPool) -> None:
        """The file is gone, or has another pool."""
        key = (pool.spec.source, pool.spec.label)
        if key in self._records and self._records[key].pool is pool:
            gone = self._records.pop(key)
            self._past_restarts[gone.source] = self._past_restarts.get(gone.source, 0) + gone.restarts

    def statuses(self) -> list[WorkerRecord]:
        return [_status(record, record.pool) for record in self._records.values() if record.pool is not None]

    def restarts(self) -> dict[str, int]:
        """How often processes crashed since the gateway started, by source; also those of files that are gone."""
        found = dict(self._past_restarts)
        for record in self._records.values():
            found[record.source] = found.get(record.source, 0) + record.restarts
        return found

    def log(self, name: str, *, limit: int, after: int = 0) -> list[LogLine]:
        """The newest lines of a worker, by the file's name, or `source/name` if two sources have one."""
        found = [record for record in self._records.values() if name in _names(record)]
        if not found:
            known = ", ".join(sorted(record.name for record in self._records.values())) or "none"
            raise NotFound(f"There is no worker '{name}'. Workers: {known}.", param="name")
        if len(found) > 1:
            longer = [f"{record.source}/{record.name}" for record in found]
            if len(set(longer)) < len(longer):
                longer = [record.label for record in found]
            choices = " or ".join(f"'{name}'" for name in longer)
            raise NotFound(f"More than one file is called '{name}'. Say {choices}.", param="name")
        return found[0].log.lines(limit=limit, after=after)

    async def sweep_environments(self) -> None:
        """Remove environments that no file has used for a long time."""
        in_use = {record.pool.spec.script.digest for record in self._records.values() if record.pool is not None}
        await asyncio.to_thread(self._environments.sweep, in_use=in_use)

    async def close(self) -> None:
        await self._environments.close()
        await self.supervisor.close()


def _names(record: FileRecord) -> tuple[str, ...]:
    return (record.name, f"{record.source}/{record.name}", record.label)


def _status(record: FileRecord, pool: WorkerPool) -> WorkerRecord:
    return WorkerRecord(
        name=record.name,
        source=record.source,
        file=record.label,
        version=pool.spec.script.digest,
        state=pool.state,
        calls=record.calls,
        restarts=record.restarts,
        error=record.error,
        processes=[_process(worker) for worker in pool.workers],
    )


def _process(worker: Worker) -> ProcessRecord:
    return ProcessRecord(
        pid=worker.pid,
        calls=worker.calls,
        in_flight=worker.busy,
        is_retiring=not worker.takes_calls,
        idle_seconds=round(worker.idle_seconds, 1),
        started_at=iso_time(worker.started_at),
    )
