"""One question to a model, one answer as text: what in-process tools and sampling servers are lent.

Above: the app, which lends it. Below: the models.
"""

from contextlib import aclosing

from jackfield.errors import BadRequest
from jackfield.llm.base import ModelRequest, RefusalDelta, TextDelta
from jackfield.llm.models import Models
from jackfield.model.items import InputText, Item, Message

DEFAULT = "default"


async def ask_once(
    models: Models,
    prompt: str,
    *,
    instructions: str | None = None,
    model: str | None = None,
    max_output_tokens: int | None = None,
) -> str:
    """The answer to one prompt. Raises `ModelFailed`, or a refusal where there is no such model."""
    said = (Message(role="user", content=(InputText(text=prompt),)),)
    return await answer_to(models, said, instructions=instructions, model=model, max_output_tokens=max_output_tokens)


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
