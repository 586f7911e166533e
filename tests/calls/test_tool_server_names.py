"""Which external tools a tool server is given, and by what name."""

from jackfield.calls.tool_servers import ToolServer, spellings_of
from jackfield.catalog.catalog import Catalog
from jackfield.model.principal import Principal
from jackfield.model.tool import ExecutionType, Tool
from jackfield.sources.base import Listing


def external(source: str, *names: str) -> tuple[str, Listing]:
    tools = (Tool(source=source, name=name, execution_type=ExecutionType.EXTERNAL) for name in names)
    return source, Listing(tools=tuple(tools))


def spelled(tools: tuple[str, ...] | None, *listings: tuple[str, Listing], scope: str = "worker:*") -> dict[str, str]:
    catalog = Catalog()
    catalog.update(listings)
    principal = Principal(name="crm", scopes=frozenset({scope}))
    return spellings_of(ToolServer("c", tools, principal=principal, limit=1), catalog.external_tools())


LOCAL = ("local", Listing(tools=(Tool(source="local", name="lookup"),)))


def test_a_server_that_names_no_tools_gets_all_that_its_key_serves() -> None:
    assert spelled(None, LOCAL, external("crm", "a", "b-c")) == {"a": "a", "b_c": "b_c"}
    assert spelled(None, external("crm", "a", "b"), scope="worker:b") == {"b": "b"}


def test_a_server_is_answered_in_the_spelling_it_asked_for() -> None:
    assert spelled(("b-c", "a"), external("crm", "a", "b-c")) == {"b_c": "b-c", "a": "a"}
    assert spelled(("b_c",), external("crm", "b-c")) == {"b_c": "b_c"}


def test_a_tool_that_lost_its_name_to_another_source_is_still_found_by_it() -> None:
    assert spelled(("lookup",), LOCAL, external("crm", "lookup")) == {"crm_lookup": "lookup"}


def test_a_public_name_goes_before_another_owners_spelling() -> None:
    listings = external("one", "lookup"), external("two", "lookup")
    assert spelled(("lookup",), *listings) == {"lookup": "lookup"}
    assert spelled(("two_lookup",), *listings) == {"two_lookup": "two_lookup"}


def test_tools_that_the_gateway_runs_or_that_the_key_may_not_serve_are_not_given() -> None:
    assert spelled(("lookup", "a"), LOCAL, external("crm", "a"), scope="worker:lookup") == {}
    assert spelled(("unknown",), external("crm", "a")) == {}
