"""Who may see an agent and change what it has in mind.

Keys with `read` see every agent; `agent:NAME` sees and changes that one alone; the rest is an administrator's.
Above: the doors of agents. Below: the store.
"""

from jackfield.errors import Forbidden
from jackfield.model.mind import KeptAgent
from jackfield.web.space_rights import agents_of
from jackfield.web.visit import Visit


async def agent_in(visit: Visit) -> KeptAgent:
    """The agent that the path names, if this key may see it. Raises `AgentNotFound`."""
    agent_id, agents = visit.part("id"), agents_of(visit.principal)
    if agents and agent_id not in agents:
        raise Forbidden(f"Key '{visit.principal.name}' is agent '{agents[0]}' and nobody else. Use another key.")
    return await visit.gateway.agents.kept(agent_id)
