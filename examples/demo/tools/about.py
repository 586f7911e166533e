"""A tool that looks at the gateway it runs in, through `ctx`."""

from dataclasses import dataclass

from jackfield.sources.context import Context


@dataclass
class About:
    gateway: str
    motto: str
    tools: dict[str, list[str]]


def about_this_gateway(ctx: Context) -> About:
    """Say what this gateway is called, and which tools it offers in each category."""
    by_category: dict[str, list[str]] = {}
    for tool in ctx.registry:
        by_category.setdefault(tool["category"], []).append(tool["name"])
    return About(ctx.settings["scenario"]["name"], ctx.config["motto"], by_category)
