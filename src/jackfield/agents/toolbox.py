"""The tools of an agent: the built-in ones, the catalog's as its settings choose, and those of its own servers. Pure.

Above: the cycle. Below: the catalog's entries. A built-in keeps its name; whoever else has it gets his source's before.
"""

from collections.abc import Iterable

from jackfield.agents.builtins import ENTRIES, OFFERED
from jackfield.catalog.catalog import Entry
from jackfield.catalog.names import legal
from jackfield.model.tool import RESERVED_NAMES
from jackfield.runs.offers import CATALOG
from jackfield.runs.tools import Offered, ToolTable


def toolbox(entries: Iterable[Entry], own: Iterable[tuple[str, Entry]] = ()) -> ToolTable:
    """`entries` are the catalog's for this agent; `own` come from its own servers, each with its server's name."""
    offered = [*OFFERED]
    taken = {*ENTRIES, *RESERVED_NAMES}
    for entry in entries:
        name = _free(entry.name, entry.tool.source, taken)
        offered.append(_offered(entry, name=name, label=CATALOG, bare_name=entry.name, is_private=False))
    for server, entry in own:
        name = _free(legal(entry.tool.name), server, taken)
        offered.append(_offered(entry, name=name, label=server, bare_name=entry.tool.name, is_private=True))
    return ToolTable(offered)


def _free(wanted: str, owner: str, taken: set[str]) -> str:
    """A name that no other tool of this agent has."""
    name, number = wanted, 1
    while name in taken:
        name = legal(f"{owner}_{wanted}" if number == 1 else f"{owner}_{wanted}_{number}")
        number += 1
    taken.add(name)
    return name


def _offered(entry: Entry, *, name: str, label: str, bare_name: str, is_private: bool) -> Offered:
    return Offered(
        name=name,
        description=entry.tool.description,
        parameters=entry.tool.input_schema,
        entry=entry,
        label=label,
        bare_name=bare_name,
        is_private=is_private,
        is_own=is_private,
    )
