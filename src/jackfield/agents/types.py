"""An agent as its cycles know it: its id, its settings, and in whose name its calls are made. Pure."""

from msgspec import Struct

from jackfield.model.principal import Principal
from jackfield.settings.types import AgentSettings


class Agent(Struct, frozen=True):
    """One agent."""

    id: str
    settings: AgentSettings
    is_configured: bool = False
    """The operator wrote it down, so what it names is the operator's choice."""

    @property
    def name(self) -> str:
        return self.settings.name or self.id

    @property
    def principal(self) -> Principal:
        """Its calls are its own: it acts as itself and nobody else, with the tools that its settings name."""
        return Principal(name=f"agent:{self.id}", scopes=frozenset({f"agent:{self.id}"}), tools=self.settings.tools)
