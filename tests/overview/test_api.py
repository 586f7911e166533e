"""`GET /api/v1/overview`: all calls for an administrator, its own for any other key."""

from pathlib import Path

from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement

KEY = "key-of-a-caller-0123"
CONFIG = f"""
[auth.keys.caller]
key = "{KEY}"
scopes = ["call"]

[sources.local]
kind = "files"
path = "tools/*.py"
"""
TOOLS = '''
def double(number: int) -> int:
    """Twice the number."""
    if number == 0:
        raise ValueError("none")
    return number * 2
'''


@requirement("CON-overview", "CONSOLE-overview-one")
async def test_an_administrator_sees_all_calls_and_another_key_its_own(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/double.py").write_text(TOOLS)
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        own = {"x-api-key": KEY}
        for number in (1, 2, 0):
            body = {"arguments": {"number": number}}
            assert (await client.post("/api/v1/tools/double/execute", json=body)).status_code == 200
        assert (await client.post("/api/v1/tools/double/execute", json=body, headers=own)).status_code == 200
        assert (await client.post("/api/v1/tools/nothing/execute", json=body, headers=own)).status_code == 404
        found = (await client.get("/api/v1/overview")).json()
        assert (found["of"], found["complete"], found["step_seconds"]) == (None, True, 60)
        assert found["total"]["outcomes"] == {"completed": 2, "failed": 2, "refused": 1}
        assert found["total"]["error_rate"] == 0.4
        assert found["total"]["p95_ms"] >= found["total"]["p50_ms"] > 0
        assert sum(point["calls"] for point in found["series"]) == 5
        by_tool = {one["name"]: (one["source"], one["calls"]) for one in found["tools"]}
        assert by_tool == {"double": ("local", 4), "(unknown)": ("(unknown)", 1)}
        assert {one["name"]: one["calls"] for one in found["principals"]} == {"admin": 3, "caller": 2}
        for only, outcomes in (
            ("tool=double", {"completed": 2, "failed": 2}),
            ("source=local", {"completed": 2, "failed": 2}),
            ("principal=caller", {"failed": 1, "refused": 1}),
            ("agent=nobody", {}),
        ):
            found = (await client.get(f"/api/v1/overview?{only}")).json()
            assert (found["of"], found["total"]["outcomes"]) == (only.partition("=")[2], outcomes), only
            assert (found["tools"], sum(point["calls"] for point in found["series"])) == ([], sum(outcomes.values()))
        both = await client.get("/api/v1/overview?tool=double&source=local")
        assert (both.status_code, "one name at a time" in both.text) == (400, True)
        assert (await client.get("/api/v1/overview?tool=double", headers=own)).status_code == 403
        assert (await client.get("/api/v1/overview?principal=caller", headers=own)).status_code == 200
        found = (await client.get("/api/v1/overview?minutes=10080", headers=own)).json()
        assert (found["of"], found["total"]["outcomes"]) == ("caller", {"failed": 1, "refused": 1})
        assert (found["tools"], found["principals"]) == ([], [])
        assert (await client.get("/api/v1/overview?minutes=7")).status_code == 400
