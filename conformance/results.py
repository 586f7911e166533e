"""What a run of the suite says: one leg, one revision, one subject, and every check of it.

Above: the legs make them, `verdict.py` judges them, `table.py` writes them down.
"""

from collections import Counter

from msgspec import Struct

SERVER, CLIENT, AUTHORIZATION = LEGS = ("server", "client", "authorization")
EXTENSIONS = "extensions"
REVISIONS = ("2025-11-25", "2026-07-28", EXTENSIONS)
"""What a leg is run for. The extensions have no revision of their own: the suite runs them with the newest."""
OURS = "jackfield"
OAUTH = "auth/"
"""What the scenarios of the client leg that are about OAuth begin with."""
PASSED, FAILED, WARNED = "SUCCESS", "FAILURE", "WARNING"


class Check(Struct, frozen=True, kw_only=True):
    """One thing that a scenario looked at."""

    scenario: str
    id: str
    status: str
    message: str = ""

    @property
    def name(self) -> str:
        return f"{self.scenario}:{self.id}"


class Run(Struct, frozen=True, kw_only=True):
    """Every check of a leg in one revision, of one program."""

    leg: str
    revision: str
    subject: str
    checks: tuple[Check, ...] = ()
    not_run: str = ""
    """Why there are no checks, where there are none."""

    def count(self, status: str) -> int:
        return sum(check.status == status for check in self.checks)

    @property
    def scenarios(self) -> dict[str, list[Check]]:
        """The checks by scenario, in the order in which they ran."""
        found: dict[str, list[Check]] = {}
        for check in self.checks:
            found.setdefault(check.scenario, []).append(check)
        return found

    @property
    def failed_scenarios(self) -> list[str]:
        return [name for name, checks in self.scenarios.items() if any(check.status == FAILED for check in checks)]

    @property
    def title(self) -> str:
        return f"{self.leg}, {self.revision}, {self.subject}"

    @property
    def totals(self) -> str:
        if self.not_run:
            return f"{self.title}: not run: {self.not_run}"
        statuses = Counter(check.status for check in self.checks)
        clean = len(self.scenarios) - len(self.failed_scenarios)
        return (
            f"{self.title}: {statuses[PASSED]} checks passed, {statuses[FAILED]} failed, {statuses[WARNED]} warned; "
            f"{clean} of {len(self.scenarios)} scenarios without a failure"
        )
