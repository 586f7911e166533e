"""Groups: what is in them, who may know of them, and what a principal within one may see and call."""

from functools import partial
from pathlib import Path

import pytest

from jackfield.audit.log import AuditLog
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.groups import Group, Groups
from jackfield.catalog.policy import Allow, Deny, decide
from jackfield.catalog.view import visibility_of
from jackfield.errors import ConfigError, Conflict, Forbidden, NotFound, ToolNotFound, Unavailable
from jackfield.model.principal import Principal
from jackfield.model.resource import Resource
from jackfield.model.tool import Tool
from jackfield.settings.types import GroupSettings
from jackfield.sources.base import Listing
from jackfield.store import Store, open_store
from tests.requirement import requirement

GROUPS = {
    "docs": GroupSettings(tools=("wiki:*", "search_*"), description="What is written"),
    "ops": GroupSettings(tools=("deploy",), instructions="Deploy on weekdays."),
    "none": GroupSettings(tools=()),
}
LISTINGS = (
    ("wiki", Listing(tools=(Tool(source="wiki", name="read"), Tool(source="wiki", name="write")))),
    ("shop", Listing(tools=(Tool(source="shop", name="search_orders"), Tool(source="shop", name="deploy")))),
)


def caller(groups: Groups, *names: str, limited: bool = True, tools: tuple[str, ...] | None = None) -> Principal:
    limit = groups.limit_to(names) if limited else None
    return Principal(name="k", scopes=frozenset({"call"}), tools=tools, groups=limit)


def catalog() -> Catalog:
    made = Catalog()
    made.update(LISTINGS)
    return made


def names(principal: Principal) -> list[str]:
    return [entry.name for entry in catalog().view(principal).entries]


@requirement("MCP2-groups-keys")
def test_a_key_sees_the_union_of_its_groups_within_its_tools() -> None:
    groups = Groups(GROUPS)
    assert names(caller(groups, limited=False)) == ["deploy", "read", "search_orders", "write"]
    assert names(caller(groups, "docs")) == ["read", "search_orders", "write"]
    assert names(caller(groups, "docs", "ops")) == ["deploy", "read", "search_orders", "write"]
    assert names(caller(groups, "docs", tools=("read", "deploy"))) == ["read"]
    assert names(caller(groups)) == [], "groups = [] is none"
    assert names(caller(groups, "none")) == []
    assert names(caller(groups, "gone")) == []


@requirement("MCP2-groups-endpoint")
def test_a_request_within_a_group_has_what_the_key_has_of_it() -> None:
    groups = Groups(GROUPS)
    assert names(groups.narrowed(caller(groups, limited=False), "ops")) == ["deploy"]
    both = caller(groups, "docs", "ops", tools=("read", "search_orders"))
    assert names(groups.narrowed(both, "docs")) == ["read", "search_orders"]
    assert names(groups.narrowed(both, "ops")) == []


@requirement("MCP2-groups-unseen")
def test_a_group_that_a_key_may_not_use_does_not_exist_for_it() -> None:
    groups = Groups(GROUPS)
    assert [group.name for group in groups.seen_by(caller(groups, limited=False))] == ["docs", "none", "ops"]
    assert [group.name for group in groups.seen_by(caller(groups, "ops", "gone"))] == ["ops"]
    with pytest.raises(NotFound, match="There is no group 'docs'"):
        groups.narrowed(caller(groups, "ops"), "docs")
    with pytest.raises(NotFound, match=r"There is no group 'doc'\. Did you mean 'docs'\?"):
        groups.get("doc", caller(groups, limited=False))
    for scope in ("session:s1", "worker:*"):
        assert groups.seen_by(Principal(name="k", scopes=frozenset({scope}))) == []


@requirement("MCP2-groups-policy")
def test_a_tool_outside_the_groups_is_refused_also_when_it_was_found() -> None:
    groups = Groups(GROUPS)
    entry = catalog().view(caller(groups, limited=False)).get("deploy")

    def decided(principal: Principal, *, is_own: bool = False) -> Allow | str:
        decision = decide(
            entry,
            principal=principal,
            agent=None,
            space_id=None,
            enabled=True,
            requires_approval=False,
            retry_after=0.0,
            is_own=is_own,
        )
        assert isinstance(decision, (Allow, Deny))
        return decision if isinstance(decision, Allow) else decision.error.message

    assert decided(caller(groups, "ops")) == Allow()
    assert decided(caller(groups, "docs")) == (
        "Key 'k' may not call 'deploy': no group in auth.keys.k.groups has it. Add one that has."
    )
    assert decided(groups.narrowed(caller(groups, limited=False), "docs")) == (
        "'deploy' is not in the group 'docs'. Use /mcp, or add it to the group."
    )
    assert decided(caller(groups, "docs"), is_own=True) == Allow(), "the caller's own tool"


def test_what_is_hidden_by_a_group_is_not_found() -> None:
    groups = Groups(GROUPS)
    with pytest.raises(ToolNotFound):
        catalog().view(caller(groups, "docs")).get("deploy")


def test_a_limit_is_what_the_groups_have_now() -> None:
    groups = Groups(GROUPS)
    key = caller(groups, "docs")
    before = visibility_of(key)
    assert hash(before) == hash(visibility_of(caller(groups, "docs"))), "keys with the same rights share one view"
    groups._configured["docs"] = Group(name="docs", tools=("read",))
    groups._unions.clear()
    assert visibility_of(key) != before
    assert names(key) == ["read"]


@requirement("MCP2-groups-list-changed")
async def test_who_follows_the_lists_hears_of_those_that_the_new_group_changed(store: Store) -> None:
    made = Catalog()
    page = Resource(uri="wiki:/a", source="wiki", listed={"uri": "wiki:/a"})
    made.update((("wiki", Listing(tools=(Tool(source="wiki", name="read"),), resources=(page,))), LISTINGS[1]))
    groups = Groups(GROUPS)
    groups.on_change = partial(made.regroup, exists=groups.has)
    await groups.put(Group(name="new", tools=("wiki:*",)), store=store, principal=ADMIN, audit=AUDIT)
    heard = made.follow_lists(groups.narrowed(ADMIN, "new"))
    other = made.follow_lists(groups.narrowed(ADMIN, "docs"))
    await groups.put(Group(name="new", tools=("read",)), store=store, principal=ADMIN, audit=AUDIT)
    assert await anext(heard) == "resources", "a plain name means tools and prompts"
    await groups.put(Group(name="new", tools=("deploy",)), store=store, principal=ADMIN, audit=AUDIT)
    assert await anext(heard) == "tools"
    await groups.delete("new", store=store, principal=ADMIN, audit=AUDIT)
    with pytest.raises(StopAsyncIteration):
        await anext(heard)
    assert not other._waiting
    await store.close()


def test_a_key_of_an_unknown_group_stops_the_start_with_file_and_key() -> None:
    with pytest.raises(ConfigError) as raised:
        Groups(GROUPS, keys={"ops": ("docs",), "crm": ("dcos",)}).check_keys("/etc/jackfield.toml")
    assert str(raised.value) == (
        "/etc/jackfield.toml: auth.keys.crm.groups has the unknown group 'dcos'. Did you mean 'docs'? "
        "Add [groups.dcos], or remove it from the key."
    )


@pytest.fixture
async def store(tmp_path: Path) -> Store:
    opened = open_store("memory:", folder=tmp_path, data=tmp_path)
    await opened.open()
    await opened.write(AUDIT.begin)
    return opened


AUDIT = AuditLog("gw_test")
ADMIN = Principal(name="boss", scopes=frozenset({"admin"}))


@requirement("MCP2-groups-run-time")
async def test_groups_are_made_changed_and_deleted_at_run_time(store: Store) -> None:
    changes: list[int] = []
    groups = Groups(GROUPS, on_change=lambda: changes.append(1))
    await groups.put(Group(name="new", tools=("read",)), store=store, principal=ADMIN, audit=AUDIT)
    assert names(caller(groups, "new")) == ["read"]
    again = Groups(GROUPS)
    await again.reload(store)
    assert again.find("new") == groups.find("new")
    await groups.put(
        Group(name="new", tools=("write",), instructions="Ask first."), store=store, principal=ADMIN, audit=AUDIT
    )
    assert names(caller(groups, "new")) == ["write"]
    await groups.delete("new", store=store, principal=ADMIN, audit=AUDIT)
    assert names(caller(groups, "new")) == []
    assert len(changes) == 3
    with pytest.raises(NotFound):
        await groups.delete("new", store=store, principal=ADMIN, audit=AUDIT)
    await store.close()


@requirement("MCP2-groups-config-409")
async def test_what_the_config_says_is_changed_there(store: Store) -> None:
    groups = Groups(GROUPS, keys={"crm": ("made",)})
    for change in (
        groups.put(Group(name="docs", tools=("*",)), store=store, principal=ADMIN, audit=AUDIT),
        groups.delete("docs", store=store, principal=ADMIN, audit=AUDIT),
    ):
        with pytest.raises(Conflict, match=r"The group 'docs' is in the config. Change \[groups.docs\] there."):
            await change
    await groups.put(Group(name="made", tools=("*",)), store=store, principal=ADMIN, audit=AUDIT)
    with pytest.raises(Conflict, match="Key 'crm' is limited to the group 'made'"):
        await groups.delete("made", store=store, principal=ADMIN, audit=AUDIT)
    limited = Principal(name="boss", scopes=frozenset({"admin"}), groups=groups.limit_to(("made",)))
    with pytest.raises(Forbidden, match="limited to groups, so it may not change any"):
        await groups.put(Group(name="made", tools=("*", "*")), store=store, principal=limited, audit=AUDIT)
    await store.close()


async def test_there_are_so_many_groups_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackfield.catalog.groups.MOST_GROUPS", 1)
    groups = Groups(GROUPS)
    for tools in (("read",), ("write",)):
        await groups.put(Group(name="one", tools=tools), store=store, principal=ADMIN, audit=AUDIT)
    with pytest.raises(Conflict, match="There are 1 groups already"):
        await groups.put(Group(name="two", tools=()), store=store, principal=ADMIN, audit=AUDIT)
    await store.close()


async def test_groups_that_cannot_be_read_admit_nobody(store: Store) -> None:
    groups = Groups(GROUPS)
    await groups.put(Group(name="made", tools=("*",)), store=store, principal=ADMIN, audit=AUDIT)
    await store.close()
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a closed store says
        await groups.reload(store)
    with pytest.raises(Unavailable, match="could not be read"):
        names(caller(groups, "made"))
    assert names(caller(groups, "ops")) == ["deploy"], "the config is known"
