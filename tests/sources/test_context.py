import logging
from typing import Any

import pytest

from jackfield.errors import ToolNotFound
from jackfield.model.call import CallStatus, Failed, Outcome, Pending, done
from jackfield.sources.base import Progress
from tests.sources.toolbox import Toolbox


async def test_ctx_is_not_in_the_schema_and_shows_the_gateway(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        async def look(ctx):
            return [ctx.call_id, ctx.run_id, ctx.agent, ctx.config, ctx.settings, ctx.registry, repr(ctx)]
        """,
    )
    await toolbox.refresh()

    assert toolbox.tools["look"].input_schema["properties"] == {}
    assert await toolbox.call("look") == [
        "call_1",
        "run_1",
        "ada",
        {"units": "metric"},
        {"scenario": {"name": "test"}},
        [{"name": "hello"}],
        "Context(tool='look', call_id='call_1')",
    ]


async def test_a_tool_that_changes_its_config_changes_only_its_copy(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def spoil(ctx):\n    ctx.config['units'] = 'none'\n    return ctx.config\n")
    await toolbox.refresh()

    assert await toolbox.call("spoil") == {"units": "metric"}


async def test_only_the_secrets_that_the_source_names_are_given(
    toolbox: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    toolbox.write(
        "a.py", "def peek(ctx):\n    return [ctx.secret(n) for n in ('WEATHER_KEY', 'UNSET_KEY', 'OTHER_KEY')]\n"
    )
    await toolbox.refresh()

    assert await toolbox.call("peek") == ["sunny-side-up", None, None]
    assert "Secret 'OTHER_KEY' is not in sources.local.secrets" in caplog.text


async def test_a_caller_cannot_give_ctx(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def kind(ctx, **more):\n    return type(ctx).__name__\n")
    await toolbox.refresh()

    assert await toolbox.call("kind", ctx="mine") == "Context"


async def test_an_async_tool_calls_another_tool(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "async def relay(ctx):\n    return await ctx.call_tool('hello', name='Ada')\n")
    await toolbox.refresh()

    assert await toolbox.call("relay") == {"name": "Ada"}
    [(name, arguments, parent)] = toolbox.asked_to_call
    assert (name, arguments, parent.call_id) == ("hello", {"name": "Ada"}, "call_1")


async def test_a_threads_tool_calls_another_tool(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def relay(ctx):\n    return ctx.call_tool_sync('hello', name='Ada')\n")
    await toolbox.refresh()

    assert await toolbox.call("relay") == {"name": "Ada"}


async def test_the_waiting_way_is_refused_in_the_event_loop(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "async def relay(ctx):\n    return ctx.call_tool_sync('hello')\n")
    await toolbox.refresh()

    failure = await toolbox.failure("relay")

    assert failure.message == (
        "RuntimeError: call_tool_sync would stop the event loop here. In an async def, await ctx.call_tool."
    )


@pytest.mark.parametrize("line", ["await ctx.call_tool('hello')", "ctx.call_tool_sync('hello')"])
@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            Failed("timeout", "Tool timed out after 10ms", done({"error": "late"}).result),
            ["timeout", "Tool timed out after 10ms", {"error": "late"}],
        ),
        (Failed("tool_error", "ValueError: x"), ["tool_error", "ValueError: x", None]),
        (
            Pending(CallStatus.PENDING_APPROVAL),
            [
                "pending_approval",
                "Tool 'hello' is answered later (pending_approval), and a tool cannot wait for that. Call it yourself.",
                None,
            ],
        ),
    ],
)
async def test_another_tools_failure_is_raised_with_its_code_and_result(
    toolbox: Toolbox, line: str, outcome: Any, said: str
) -> None:
    toolbox.answer = lambda _: outcome
    toolbox.write(
        "a.py",
        f"""
        from jackfield.sources.context import Context, ToolFailed
        {"async " if "await" in line else ""}def relay(ctx: Context):
            try:
                return {line}
            except ToolFailed as failed:
                return [failed.code, failed.message, failed.result]
        """,
    )
    await toolbox.refresh()

    assert await toolbox.call("relay") == said


async def test_a_refused_call_is_raised_as_it_is(toolbox: Toolbox) -> None:
    def refuse(_: Any) -> Outcome:
        raise ToolNotFound("There is no tool 'hello'.")

    toolbox.answer = refuse
    toolbox.write("a.py", "def relay(ctx):\n    return ctx.call_tool_sync('hello')\n")
    await toolbox.refresh()

    assert (await toolbox.failure("relay")).message == "ToolNotFound: There is no tool 'hello'."


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_progress_reaches_the_event_loop_in_order(toolbox: Toolbox, kind: str) -> None:
    toolbox.write("a.py", f"{kind} work(ctx):\n    ctx.progress(1)\n    ctx.progress(2, 3, 'nearly')\n")
    await toolbox.refresh()

    await toolbox.call("work")

    assert toolbox.progress == [Progress(progress=1), Progress(progress=2, total=3, message="nearly")]


async def test_log_lines_name_the_tool_and_the_call(toolbox: Toolbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    toolbox.write(
        "a.py", "def work(ctx):\n    ctx.log('half way', city='Bergen', name='x')\n    ctx.log('hm', level=30)\n"
    )
    await toolbox.refresh()

    await toolbox.call("work")

    first, second = [record for record in caplog.records if record.name == "jackfield.tools"]
    assert first.getMessage() == "work [call_1] half way city='Bergen' name='x'"
    assert (first.call_id, first.tool, first.fields) == ("call_1", "work", {"city": "Bergen", "name": "x"})  # type: ignore[attr-defined]
    assert (second.levelname, second.getMessage()) == ("WARNING", "work [call_1] hm")


async def test_ctx_cannot_be_changed(toolbox: Toolbox) -> None:
    toolbox.write("a.py", "def spoil(ctx):\n    ctx.call_id = 'other'\n")
    await toolbox.refresh()

    assert (await toolbox.failure("spoil")).message.startswith("AttributeError: ")


async def test_ctx_may_be_hinted_only_for_the_type_checker(toolbox: Toolbox) -> None:
    toolbox.write(
        "a.py",
        """
        from __future__ import annotations
        from datetime import date
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from jackfield.sources.context import Context
        async def year(day: date, ctx: Context) -> int:
            return day.year
        """,
    )
    await toolbox.refresh()

    assert await toolbox.call("year", day="2026-01-02") == 2026
