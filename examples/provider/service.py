"""A small service of its own that offers two of its functions as tools. Run it: python service.py"""

import os
from typing import Annotated, Literal

import uvicorn
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from jackfield import discovery

STOCK = {"apples": 40, "pears": 0, "plums": 7}
Fruit = Literal["apples", "pears", "plums"]


class Order(Struct):
    """What was ordered."""

    fruit: str
    number: int
    left: int


def stock(fruit: Fruit) -> int:
    """How many of a fruit are in stock."""
    return STOCK[fruit]


async def order(fruit: Fruit, number: Annotated[int, Meta(ge=1, le=100)] = 1) -> Order:
    """Order some fruit. Fails when there is not enough of it."""
    if STOCK[fruit] < number:
        raise ValueError(f"only {STOCK[fruit]} {fruit} left")
    STOCK[fruit] -= number
    return Order(fruit=fruit, number=number, left=STOCK[fruit])


async def home(_request):
    return PlainTextResponse("The fruit shop. Its tools are at /api/v1/tools\n")


app = Starlette(routes=[Route("/", home)])

discovery.mount(
    app,
    tools=[
        discovery.ServedTool(function=stock, category="shop", idempotent=True),
        discovery.ServedTool(
            function=order,
            category="shop",
            timeout=10,
            metadata={
                "cost_estimate": "low",
                "rate_limit_per_minute": 60,
                "tags": ["fruit"],
                "examples": [{"description": "Two plums", "input": {"fruit": "plums", "number": 2}}],
            },
        ),
    ],
    name="fruit-shop",
    version="1.2.0",
    description="Fruit, in stock and to order",
    categories=[discovery.Category(id="shop", name="Shop", description="All about fruit", icon="basket")],
    key=os.environ.get("SHOP_KEY"),
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8700")), log_level="warning")
