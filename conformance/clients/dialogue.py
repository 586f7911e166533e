"""What the scripted model says: read off the conversation alone, so that any program can play it in any order. Pure.

A question for the weather is looked up for two cities at once and answered with both results; "What did you say?" is
answered with what it said before. A program with a shell is sent through its tools one after the other: the shell, the
tools of an MCP server (found by a search first, where the program wants that), a patch, and then the sum of it all.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+patched\n*** End Patch\n"
SHELLS = ("exec_command", "shell_command", "shell", "bash")
DONE_WITH = {"exec_command": "cmd", "shell_command": "command", "bash": "command"}
"""Shells, and what each calls the line that it runs."""


class Reply(Struct, frozen=True, kw_only=True):
    """One step of the model."""

    think: str = "I think about it."
    say: str = ""
    calls: tuple[tuple[str, Json], ...] = ()


class Heard(Struct, frozen=True, kw_only=True):
    """A request, as far as the dialogue looks at it."""

    user: str
    """What a person said last."""
    said_before: str
    """What the model itself said last."""
    called: tuple[str, ...]
    """The tools that were called since a person spoke, in their order."""
    results: tuple[str, ...]
    """What came of them."""
    images: int
    """Images in the whole request."""
    tools: tuple[str, ...]


def reply_to(body: Json) -> Reply:
    heard = heard_in(body)
    if "what did you say" in heard.user.lower():
        return _ended(heard, f"I said: {heard.said_before}")
    shell = next((name for name in SHELLS if name in heard.tools), None)
    if shell is not None and "whole play" in heard.user:
        return _play(heard, shell)
    return _weather(heard)


def heard_in(body: Json) -> Heard:
    user = said = ""
    called: list[str] = []
    results: list[str] = []
    for message in body["messages"]:
        text = _text(message["content"])
        is_result = text.startswith("Observation:") and "New task:" not in text  # as smolagents tells results
        if message["role"] == "tool" or is_result:
            results.append(text)
        elif message["role"] == "user" and not text.startswith("The images in the result of"):
            user, called, results = text, [], []
        elif message["role"] == "assistant":
            said = text or said
            called += [call["function"]["name"] for call in message.get("tool_calls", ())]
    return Heard(
        user=user,
        said_before=said,
        called=tuple(called),
        results=tuple(results),
        images=sum(_images(message["content"]) for message in body["messages"]),
        tools=tuple(tool["function"]["name"] for tool in body.get("tools", ())),
    )


def _weather(heard: Heard) -> Reply:
    tool = _ending(heard.tools, "get_weather")
    if tool is not None and not heard.results and "weather" in heard.user.lower():
        return Reply(calls=((tool, {"city": "Lisbon"}), (tool, {"city": "Porto"})), think="Two cities, at once.")
    shot = _ending(heard.tools, "screenshot")
    if shot is not None and not heard.results and "screen" in heard.user.lower():
        return Reply(calls=((shot, {}),), think="I look at it.")
    if not heard.results:
        return Reply(say=f"Hello. I see {heard.images} images.")
    return _ended(heard, _sum(heard))


def _ended(heard: Heard, words: str) -> Reply:
    """The last words; some programs want them as the call of a tool."""
    if "final_answer" in heard.tools:
        return Reply(calls=(("final_answer", {"answer": words}),))
    return Reply(say=words)


def _play(heard: Heard, shell: str) -> Reply:
    """The next tool that has not been called."""
    if shell not in heard.called:
        return Reply(calls=((shell, _line(shell, "printf 'hello from the shell'")),), think="First the shell.")
    add, screenshot = _ending(heard.tools, "add"), _ending(heard.tools, "screenshot")
    if add is None and "tool_search" in heard.tools and "tool_search" not in heard.called:
        return Reply(calls=(("tool_search", {"query": "add screenshot"}),))
    if add is not None and add not in heard.called:
        both = ((add, {"a": 2, "b": 40}),) + (((screenshot, {}),) if screenshot else ())
        return Reply(calls=both, think="Both tools of the server, at once.")
    if "apply_patch" in heard.tools and "apply_patch" not in heard.called:
        return Reply(calls=(("apply_patch", {"input": PATCH}),))
    return Reply(say=_sum(heard))


def _line(shell: str, command: str) -> Json:
    if shell == "shell":
        return {"command": ["bash", "-lc", command]}
    about = {"description": "Say hello"} if shell == "bash" else {}
    return {DONE_WITH[shell]: command, **about}


def _sum(heard: Heard) -> str:
    told = "; ".join(" ".join(result.split())[:300] for result in heard.results)
    return f"All done. Results: {told}. Images: {heard.images}."


def _ending(names: Sequence[str], word: str) -> str | None:
    return next((name for name in names if re.fullmatch(rf"(.*[_-])?{word}", name)), None)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _images(content: Any) -> int:
    return sum(part.get("type") == "image_url" for part in content) if isinstance(content, list) else 0


def arguments_of(call: tuple[str, Json]) -> str:
    return msgspec.json.encode(call[1]).decode()
