"""`reference/metrics.md`: every metric, from the registry that `/metrics` is written from."""

from documentation.markdown import page, table
from jackfield.gateway.metrics import FOR_ALL, METRICS


def metrics_page() -> str:
    """The whole page."""
    return page(
        "Metrics reference",
        "What `GET /metrics` has. [Metrics](../metrics.md) says how to scrape it, how labels are bounded, and which "
        "questions the figures answer.",
        table(
            ["metric", "type", "labels", "meaning"],
            ((f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels), one.help) for one in METRICS),
        ),
        f"A key that sees a part of the catalog gets {', '.join(f'`{one.name}`' for one in FOR_ALL)}, of that part.",
    )
