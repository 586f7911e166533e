"""Bars as SVG, readable on light and dark pages alike. Pure; no library."""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

WIDTH, LABELS, FIGURES = 760, 230, 90
BAR, GAP, TOP, PAD = 20, 10, 46, 16
OURS, LIMIT = "Jackfield", "nothing at all"
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}.bg{fill:#fff}"
    ".o{fill:#8d99a6}.j{fill:#c2571a}.n{fill:#5b8c5a}@media (prefers-color-scheme:dark){text{fill:#e6edf3}"
    ".bg{fill:#0d1117}.o{fill:#6e7b88}.j{fill:#e8833a}.n{fill:#6fae6d}}"
)


def bar_chart(title: str, bars: Sequence[tuple[str, float]], figures: Sequence[str]) -> str:
    """A bar for each of these, from zero, with its figure behind it."""
    most = max((value for _, value in bars), default=0.0) or 1.0
    height = TOP + len(bars) * (BAR + GAP) + PAD - GAP
    room = WIDTH - LABELS - FIGURES - 2 * PAD
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(title)}>',
        f"<style>{STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="t" x="{PAD}" y="28">{escape(title)}</text>',
    ]
    for place, ((label, value), figure) in enumerate(zip(bars, figures, strict=True)):
        top = TOP + place * (BAR + GAP)
        wide = max(value / most * room, 1.0)
        middle = top + BAR - 5
        lines += [
            f'<text x="{PAD + LABELS - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>',
            f'<rect class="{_kind(label)}" x="{PAD + LABELS}" y="{top}" width="{wide:.1f}" height="{BAR}" rx="2"/>',
            f'<text x="{PAD + LABELS + wide + 6:.1f}" y="{middle}">{escape(figure)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _kind(label: str) -> str:
    if label.startswith(OURS):
        return "j"
    return "n" if label.startswith(LIMIT) else "o"
