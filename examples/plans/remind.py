"""Asks the agent for a reminder and prints what it says: python remind.py"""

import os
import sys

from jackfield.sdk import SyncClient

WHAT = " ".join(sys.argv[1:]) or "the bread is in the oven"
ANSWERS = 2
"""That it has made a plan; and, when the plan fires, what it was to say."""

with SyncClient(key=os.environ.get("JACKFIELD_KEY", "plans-example-key")) as client:
    asked = client.spaces.send("lobby", f"Remind me: {WHAT}")
    answers = 0
    for event in client.spaces.follow("lobby", after=asked.seq):
        if event.message is not None and event.message.sender_type == "agent":
            print(event.message.content)
            answers += 1
        if answers == ANSWERS:
            break
