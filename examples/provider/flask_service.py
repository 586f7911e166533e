"""A Flask service that offers a function as a tool: pip install flask; python flask_service.py"""

import asyncio
import os

from flask import Flask, Response, request

from jackfield import discovery

app = Flask(__name__)
PRICES = {"coffee": 3.2, "tea": 2.8}


@app.get("/prices")
def list_prices() -> dict[str, float]:
    """The service's own endpoint."""
    return PRICES


def price(drink: str) -> float:
    """What a drink costs."""
    return PRICES[drink]


provider = discovery.Provider([price], name="cafe", key=os.environ.get("SHOP_KEY"))


@app.route("/api/v1/tools", methods=["GET"])
@app.route("/api/v1/tools/<path:rest>", methods=["GET", "POST"])
@app.route("/api/v1/calls/<path:rest>", methods=["POST"])
def tools(**_: str) -> Response:
    """The endpoints of the Tool Discovery Protocol."""
    answer = provider.respond(request.method, request.path, headers=request.headers, body=request.get_data())
    reply = asyncio.run(answer)
    return Response(reply.body, reply.status, reply.headers)


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ.get("PORT", "8702")))
