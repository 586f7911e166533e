"""Hooks of installed packages, by entry points of the group `jackfield.hooks`."""

from pathlib import Path

import pytest

from tests.hooks.harness import PATIENT, execute, hooked, notes, record
from tests.requirement import requirement

MODULE = """
import asyncio


def check(event):
    denied = event["call"]["arguments"].get("text") == event["options"]["word"]
    return {"decision": "deny" if denied else "allow", "reason": "a plain function"}


async def review(event):
    await asyncio.sleep(0)
    return {"decision": "replace", "result": {"said": "reviewed"}, "reason": "an async function"}


class Checker:
    def __call__(self, event):
        return {"decision": "allow", "reason": "an object"}


checker = Checker()
"""
ENTRY_POINTS = """\
[jackfield.hooks]
acme-check = acme_hooks:check
acme-review = acme_hooks:review
acme-object = acme_hooks:checker
"""
METADATA = "Metadata-Version: 2.1\nName: acme-hooks\nVersion: 1.0\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where Python finds the package, as in an environment where it is installed."""
    folder = tmp_path / "site"
    (folder / "acme_hooks-1.0.dist-info").mkdir(parents=True)
    (folder / "acme_hooks.py").write_text(MODULE)
    (folder / "acme_hooks-1.0.dist-info" / "METADATA").write_text(METADATA)
    (folder / "acme_hooks-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def used(site: Path, on: str, name: str) -> str:
    return f"""
[[hooks]]
on = "{on}_call"
use = "{name}"
tools = ["echo"]
timeout = {PATIENT}
options = {{ word = "no" }}
env = {{ PYTHONPATH = "{site}" }}
"""


@requirement("HOOK-packages")
async def test_packages_bring_hooks_of_plain_and_async_functions(tmp_path: Path, site: Path) -> None:
    hooks = (
        used(site, "before", "acme-check") + used(site, "before", "acme-object") + used(site, "after", "acme-review")
    )
    async with hooked(tmp_path, "", hooks) as (_, client):
        allowed = (await execute(client, "echo", text="yes")).json()
        denied = await execute(client, "echo", text="no")
        shown = await record(client, allowed["call_id"])
        listed = (await client.get("/api/v1/hooks")).json()["hooks"]
    assert allowed["result"] == {"said": "reviewed"}
    assert denied.status_code == 403
    assert notes(shown) == [
        ("acme-check", "allow", "a plain function"),
        ("acme-object", "allow", "an object"),
        ("acme-review", "replace", "an async function"),
    ]
    assert [(one["name"], one["failures"]) for one in listed] == [
        ("acme-check", 0),
        ("acme-object", 0),
        ("acme-review", 0),
    ]
