"""All pages that are made from the code, by their path in the site.

python -m documentation FOLDER     writes them, for reading without the site
"""

import sys
from collections.abc import Callable
from pathlib import Path

from documentation.cli import cli_page
from documentation.config import config_page
from documentation.errors import errors_page
from documentation.events import events_page
from documentation.http import http_page, types_page
from documentation.metrics import metrics_page
from documentation.sdk import sdk_page

PAGES: dict[str, Callable[[], str]] = {
    "reference/config.md": config_page,
    "reference/cli.md": cli_page,
    "reference/http.md": http_page,
    "reference/http-types.md": types_page,
    "reference/sdk.md": sdk_page,
    "reference/events.md": events_page,
    "reference/errors.md": errors_page,
    "reference/metrics.md": metrics_page,
}


def write(folder: Path) -> None:
    for path, make in PAGES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(make(), encoding="utf-8")


def main() -> int:
    if len(sys.argv) != 2:  # noqa: PLR2004 - the command and its argument
        print("usage: python -m documentation FOLDER", file=sys.stderr)
        return 2
    write(Path(sys.argv[1]))
    return 0
