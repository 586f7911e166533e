"""The config is read anew again and again at two gateways under load."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stress.changes import CONFIG, FILES, Side, change_under_load
from stress.processes import Project, Victim, victims
from stress.report import Report

BROKEN_EVERY = 10


async def reload_under_load(store_url: str, folder: Path, *, seed: int, gateways: int, reloads: int) -> Report:
    """So many reloads, at all gateways together."""
    report = Report(part="reloads", seed=seed)
    async with victims(folder, store_url, count=gateways, project=Project(CONFIG, FILES)) as running:
        sides = [Reloading(victim, folder / f"gw{number}", report) for number, victim in enumerate(running)]
        await change_under_load(sides, report, seed=seed, changes=reloads)
    return report


class Reloading(Side):
    """A gateway whose file is changed."""

    def __init__(self, victim: Victim, folder: Path, report: Report) -> None:
        super().__init__(victim, folder, report)
        self._config = folder / "jackfield.toml"
        self._base = self._config.read_text(encoding="utf-8")
        self._reloads = 0
        self._changing: dict[str, str] = {}

    async def change_on(self, count: int, chance: random.Random, tell: Callable[[], None]) -> None:
        for _ in range(count):
            self._reloads += 1
            if self._reloads % BROKEN_EVERY == 0:
                await self._reload("[sources.broken]\nkind = 'nonsense'\n", status=409)
            else:
                await self._reload_well(chance)
            tell()

    async def _reload_well(self, chance: random.Random) -> None:
        n = self._reloads
        wanted = {
            "groups.some": f'[groups.some]\ntools = ["t{n}"]\n',
            "auth.keys.some": f'[auth.keys.some]\nkey = "a key with the number {n}"\n',
            "sources.changing": f'[sources.changing]\nkind = "files"\npath = "{"ab"[n % 2]}.py"\n',
            "categories.some": f'[[categories]]\nid = "some"\nname = "Number {n}"\n',
        }
        kept = {name: text for name, text in wanted.items() if chance.random() < 0.7}
        before, self._changing = self._changing, kept
        answer = await self._reload("".join(kept.values()), status=200)
        expected = {
            "added": sorted(kept.keys() - before.keys()),
            "removed": sorted(before.keys() - kept.keys()),
            "changed": sorted(name for name in kept.keys() & before.keys() if kept[name] != before[name]),
            "restart_needed": [],
        }
        self.report.expect(answer == expected, f"a reload was answered {answer}, not {expected}")

    async def _reload(self, text: str, *, status: int) -> Any:
        self._config.write_text(self._base + text, encoding="utf-8")
        response = await self.client.post("/api/v1/config/reload")
        self.report.seen[f"reloads answered {response.status_code}"] += 1
        self.report.expect(
            response.status_code == status, f"a reload was answered {response.status_code}: {response.text[:300]}"
        )
        return response.json()
