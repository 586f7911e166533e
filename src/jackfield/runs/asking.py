"""What a model says next, as text: lent to in-process tools and to servers that may sample.

Above: the app, which lends it. Below: the models.
"""

from contextlib import aclosing

from jackfield.errors import BadRequest
from jackfield.llm.base import ModelRequest, RefusalDelta, TextDelta
from jackfield.llm.models import Models
from jackfield.model.items import Item

DEFAULT = "default"


async def answer_to(
    models: Models,
    items: tuple[Item, ...],
    *,
    instructions: str | None = None,
    model: str | None = None,
    max_output_tokens: int | None = None,
) -> str:
    """What a model says next in a conversation without tools."""
    asked = await models.get(model or default_model(models))
    request = ModelRequest(items=items, instructions=instructions, max_output_tokens=max_output_tokens)
    async with aclosing(asked.stream(request)) as deltas:
        return "".join([delta.text async for delta in deltas if isinstance(delta, TextDelta | RefusalDelta)])


def default_model(models: Models) -> str:
    """`default` if there is one of that name, else the first of the config."""
    if not models.names:
        raise BadRequest("There is no model. Add [models.default] to the config.", param="model")
    return DEFAULT if DEFAULT in models.names else models.names[0]
