import msgspec
import pytest

from jackfield.errors import ConfigError
from jackfield.model.call import Done
from jackfield.model.tool import ExecutionType, Tool, ToolKind
from jackfield.sources.base import Source
from jackfield.sources.external import InternalSource
from tests.sources.invocations import invocation_of

CHART = Tool(source="internal", name="displayChart", execution_type=ExecutionType.INTERNAL)


async def test_an_internal_tool_gives_its_arguments_back() -> None:
    outcome = await InternalSource((CHART,)).execute(invocation_of(CHART, title="é", points=[1, None, {"x": 2}]))

    assert outcome == Done(msgspec.Raw('{"success":true,"args":{"title":"é","points":[1,null,{"x":2}]}}'.encode()))


async def test_the_source_lists_its_tools_and_executes_only_these() -> None:
    source: Source = InternalSource((CHART,))

    await source.open()
    listing = await source.refresh()
    await source.close()

    assert (source.name, source.kind, source.tool_kind) == ("internal", "internal", ToolKind.INTERNAL)
    assert (listing.tools, listing.faults) == ((CHART,), ())
    assert source.can_execute(CHART)
    assert not source.can_execute(msgspec.structs.replace(CHART, name="other"))
    assert not source.can_execute(msgspec.structs.replace(CHART, source="http"))


def test_two_tools_of_one_name_are_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"^Two of the \[\[tools\]\] are called 'displayChart'\. Rename one of them"):
        InternalSource((CHART, CHART))
