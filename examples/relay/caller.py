"""A caller: opens a session, lends the agent in it a function of this very process, and asks it something.

python caller.py                 the agent of the config
python caller.py sandboxed       the program agent.py, in a sandbox without network
"""

import sys

from jackfield.sdk import SyncClient


def send_message(to: str, text: str) -> str:
    """Send a text message to somebody's phone."""
    print(f"  (sending {text!r} to {to})")
    return "delivered"


agent = sys.argv[1] if len(sys.argv) > 1 else "helper"
with SyncClient(key="relay-example-key") as client, client.sessions.open(agent, tools=[send_message]) as session:
    print(session.ask("Tell Ada that dinner is ready."))
