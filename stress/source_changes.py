"""Sources and secrets are made, changed, restarted and removed over the API of two gateways under load."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from stress.changes import CONFIG, FILES, Side, change_under_load
from stress.logins import VAULT_KEY
from stress.processes import Project, Victim, victims
from stress.report import Report

BROKEN_EVERY = 10
SECRET = "SOME_TOKEN"


async def change_sources_under_load(store_url: str, folder: Path, *, seed: int, gateways: int, changes: int) -> Report:
    """So many changes, at all gateways together. Each is followed by all of them."""
    report = Report(part="source-changes", seed=seed)
    project = Project(f"{CONFIG}\n[admin]\ncommands = true\n", FILES, {"JACKFIELD_VAULT_KEY": VAULT_KEY})
    async with victims(folder, store_url, count=gateways, project=project) as running:
        sides = [Changing(victim, folder / f"gw{n}", report, name=f"changing{n}") for n, victim in enumerate(running)]
        await change_under_load(sides, report, seed=seed, changes=changes)
    return report


class Changing(Side):
    """A gateway where a source of its own comes, changes and goes."""

    def __init__(self, victim: Victim, folder: Path, report: Report, *, name: str) -> None:
        super().__init__(victim, folder, report)
        self._name = name
        self._changes = 0
        self._is_made = False
        self.changing_tools = tuple(f"{prefix}changing_{letter}" for prefix in ("one_", "two_") for letter in "ab")

    async def change_on(self, count: int, chance: random.Random, tell: Callable[[], None]) -> None:
        for _ in range(count):
            self._changes += 1
            await self._change(chance)
            tell()

    async def _change(self, chance: random.Random) -> None:
        n, path = self._changes, f"/api/v1/sources/{self._name}"
        if n % BROKEN_EVERY == 0:
            wrong = {"name": f"wrong-{self._name}", "kind": "nonsense"}
            await self._ask("refused", self.client.post("/api/v1/sources", json=wrong), 400)
        elif not self._is_made:
            self._is_made = True
            made = {"name": self._name, "kind": "files", "path": str(self.folder / "a.py"), "prefix": "one_"}
            await self._ask("made", self.client.post("/api/v1/sources", json=made), 201)
        elif (die := chance.random()) < 0.25:
            self._is_made = False
            await self._ask("removed", self.client.delete(path), 204)
        elif die < 0.35:
            await self._ask("restarted", self.client.post(f"{path}/restart"), 202)
        elif die < 0.5:
            put = self.client.put(f"/api/v1/secrets/{SECRET}_{self._name}", json={"value": f"the secret number {n}"})
            await self._ask("secrets set", put, 200)
        else:
            await self._ask("changed", self.client.patch(path, json=self._patch(chance)), 200)

    def _patch(self, chance: random.Random) -> dict[str, Any]:
        """Another file, another prefix, or another process by way of a secret or not."""
        return chance.choice(
            (
                {"path": str(self.folder / f"{chance.choice('ab')}.py")},
                {"prefix": chance.choice(("one_", "two_"))},
                {"env": {"TOKEN": f"${{{SECRET}_{self._name}}}"}},
                {"env": None},
            )
        )

    async def _ask(self, what: str, request: Any, status: int) -> None:
        response: httpx2.Response = await request
        self.report.seen[f"{what} ({response.status_code})"] += 1
        said = f"{what}: {self._name} was answered {response.status_code}: {response.text[:300]}"
        self.report.expect(response.status_code == status, said)
