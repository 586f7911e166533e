"""What `make trace` counts in sources, and how it says so."""

from pathlib import Path

from bench.trace.code import CodeFigures, measure
from bench.trace.report import Figures, table
from bench.trace.scenes import Trace

SOURCES = {
    "__init__.py": "",
    "one.py": "from pack.inner import two\nfrom pack.inner.three import Thing\n\n\nclass Thing:\n    pass\n",
    "inner/__init__.py": "from .three import Thing\n",
    "inner/two.py": "import pack.one\n\n\ndef short():\n    return 1\n",
    "inner/three.py": "class Thing:\n    def long(self):\n        a = 1\n        return a\n\n\nclass _Own:\n    ...\n",
}


def test_a_package_is_counted(tmp_path: Path) -> None:
    for name, text in SOURCES.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert measure(tmp_path / "pack") == CodeFigures(
        modules=5,
        lines=20,
        lines_per_module=4,
        function_p95=3,
        class_names=1,
        class_names_twice=1,
        single_importers=2,  # one by two, two by one; three has two importers
    )


def test_the_table_says_which_aims_are_met() -> None:
    text = table(_figures(functions=120), _figures(functions=100))
    assert "| (a) REST execute of an in-process tool: functions | 120 | 100 | ≤ 100 ✓ |" in text
    assert "| lines | 60,000 | 60,000 | ≤ 54,000 |" in text


def _figures(*, functions: int) -> Figures:
    code = CodeFigures(
        modules=300,
        lines=60_000,
        lines_per_module=200,
        function_p95=20,
        class_names=10,
        class_names_twice=0,
        single_importers=0,
    )
    trace = Trace(functions=functions, modules=20, package_changes=5, reads=0, transactions=1)
    return Figures(commit="abc", code=code, calls=dict.fromkeys(("a", "b", "c", "c0", "d"), trace))
