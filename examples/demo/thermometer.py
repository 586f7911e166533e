"""A tool server: a program of its own that answers calls of the demo's `read_thermometer`.

Run it beside the gateway, wherever the thermometer is. It finds the gateway by JACKFIELD_URL and JACKFIELD_KEY, or by
JACKFIELD_DATA if both are on one machine; it connects by itself, and again after a break. No port is opened here.
"""

from jackfield.sdk import SyncClient

CELSIUS = {"attic": 27.5, "cellar": 12.0, "kitchen": 21.5}


def read_thermometer(room: str) -> dict[str, object]:
    return {"room": room, "celsius": CELSIUS[room]}


if __name__ == "__main__":
    with SyncClient() as client:
        client.tools.serve({"read_thermometer": read_thermometer}, client_id="demo-thermometer")
