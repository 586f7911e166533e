"""A demand is shown only where one of its tests ran and passed: a whole run says which ticked ones it did not show.

A part of the suite shows a part of the demands and says nothing. With xdist the workers note the ids with each report,
and the process that gathers the reports decides.
"""

import pytest

from tests.requirements_report import read_demands

_PROPERTY = "requirement"
_CHOOSING = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "failedfirst", "stepwise", "collectonly")


def pytest_itemcollected(item: pytest.Item) -> None:
    for marker in item.iter_markers(_PROPERTY):
        item.user_properties.extend((_PROPERTY, name) for name in marker.args)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and _is_whole(config):
        config.pluginmanager.register(_Shown(config))


def _is_whole(config: pytest.Config) -> bool:
    chosen = any(config.getoption(name, None) for name in _CHOOSING)
    return config.args == config.getini("testpaths") and not chosen


class _Shown:
    """What the reports of a whole run show."""

    def __init__(self, config: pytest.Config) -> None:
        self._file = config.rootpath / "tests" / "requirements.toml"
        self._passed: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._missing: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        names = {str(value) for name, value in report.user_properties if name == _PROPERTY}
        if report.skipped:
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
            self._skipped |= dict.fromkeys(names, str(reason))
        elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed |= names

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return
        demands = read_demands(self._file.read_text(encoding="utf-8"))
        self._missing = [
            f"{demand.id} is ticked, and no test of it ran and passed: "
            f"{self._skipped.get(demand.id, 'none of its tests was collected')}"
            for demand in demands
            if demand.shown and demand.id not in self._passed
        ]
        if self._missing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missing:
            terminalreporter.section("demands that this run did not show", red=True)
            for sentence in self._missing:
                terminalreporter.line(sentence)
            terminalreporter.line("Bring what the skipped tests need: a skipped test shows nothing.")
