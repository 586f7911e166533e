"""A FastAPI service that offers a function as a tool: pip install fastapi; python fastapi_service.py"""

import os

import uvicorn
from fastapi import FastAPI

from jackfield import discovery

app = FastAPI()
ROOMS = {"garden": 12, "attic": 4}


@app.get("/rooms")
def list_rooms() -> dict[str, int]:
    """The service's own endpoint."""
    return ROOMS


def seats(room: str) -> int:
    """How many people a room seats."""
    return ROOMS[room]


discovery.mount(app, tools=[seats], name="rooms", key=os.environ.get("SHOP_KEY"))

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8701")), log_level="warning")
