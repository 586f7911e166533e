"""Every page of the console, with something on it: for the sweep."""

from tests.console.scene import execute, get, messages, post, say
from tests.harness.process import RunningGateway
from tests.waiting import eventually

WIDTHS = (1440, 1000, 390)
PAGES = {
    "/overview": ".figures",
    "/calls": "main h1",
    "/waiting": ".schema-form input",
    "/runs": ".data-row.to",
    "/spaces": "main h1",
    "/spaces/hall": ".recharts-surface",
    "/agents": ".data-row.to",
    "/agents/ada": ".fact",
    "/tools": ".row",
    "/tools/shapes": ".try-it textarea",
    "/tools/poison": ".cards article",
    "/sources": "main [role='row']",
    "/sources/local": "main h1",
    "/access": "main h1",
    "/settings": "main h1",
}
"""Places, and what is there once they are drawn."""


def act(gateway: RunningGateway) -> dict[str, str]:
    """Do what makes the pages worth looking at; all places, with those of a call and a run."""
    execute(gateway, "poison", {})
    execute(gateway, "send_invoice", {"customer": "ACME", "amount": 3})
    execute(gateway, "askForDetails", {"question": "For the pages?"})
    call = post(gateway, "/api/v1/tools/get_weather/execute", {"arguments": {"city": "Tokyo"}})["call_id"]
    say(gateway, "hall", "Show a chart")
    eventually(lambda: any(one["metadata"].get("toolName") == "displayChart" for one in messages(gateway, "hall")))
    run = eventually(lambda: get(gateway, "/api/runs")["runs"])[0]["id"]
    return PAGES | {
        f"/calls/{call}": "main h1",
        f"/runs/{run}": "main h1",
        f"/runs/compare?one={run}&other={run}": ".compare a",
    }
