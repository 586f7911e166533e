"""MCP Inspector's command line against the gateway: whether it sees and calls what is there."""

from conformance.plan import Plan
from conformance.results import OURS
from conformance.subjects import SUBJECTS, Target
from conformance.suite import SuiteError, inspect

SIMPLE = "test_simple_text"
SAYS = ["This is a simple text response for testing."]


def look(plan: Plan) -> str:
    """One line about what it saw. Anything else than what is there is an error."""
    folder = plan.folder / "inspector"
    folder.mkdir()
    with SUBJECTS[OURS](folder, legacy=plan.legacy) as target:
        return _looked(plan, target)


def _looked(plan: Plan, target: Target) -> str:
    def ask(*asked: str) -> dict[str, object]:
        return inspect(plan.tools, url=target.url, key=target.key, folder=plan.folder, asked=asked)

    names = [tool["name"] for tool in _list(ask("--method", "tools/list"), "tools")]
    called = ask("--method", "tools/call", "--tool-name", SIMPLE)
    if SIMPLE not in names or [block.get("text") for block in _list(called, "content")] != SAYS:
        raise SuiteError(f"Inspector saw the tools {names}, and {called} as the answer of {SIMPLE}.")
    return f"MCP Inspector: lists {len(names)} tools, calls {SIMPLE}"


def _list(answer: dict[str, object], key: str) -> list[dict[str, object]]:
    found = answer.get(key, [])
    return found if isinstance(found, list) else []
