"""Skills through `/mcp`: of servers and of folders, in both eras, verified, within groups and keys."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.mcp.library import library
from tests.mcp.scene import KEY, Scene, mcp_scene
from tests.mcp.skill_shelf import EXTENSION, SkillShelf, skill_shelf
from tests.requirement import requirement
from tests.sources.skills.test_source import skill_text, write
from tests.waiting import eventually_async

REFUNDS = "skill://acme/refunds/SKILL.md"
LISTED = ["skill://acme/refunds/SKILL.md", "skill://git/SKILL.md"]
KEYS = """
[groups.team]
tools = ["team:*"]
[auth.keys.teammate]
key = "teammate-key"
groups = ["team"]
"""


def config(shelf: SkillShelf, more: str = KEYS) -> str:
    servers = f'[sources.docs]\nkind = "mcp"\nurl = "{shelf.url}"\n'
    return servers + '[sources.team]\nkind = "skills"\npath = "skills"\n' + more


async def ask(scene: Scene, method: str, *, key: str = KEY, **params: Any) -> Any:
    headers = {"mcp-name": params["uri"]} if method == "resources/read" else {}
    answer = (await scene.ask(method, params, key=key, headers=headers)).json()
    return answer.get("result") or answer["error"]


async def uris(scene: Scene, *, key: str = KEY) -> list[str]:
    return [skill["uri"] for skill in (await ask(scene, "skills/list", key=key))["skills"]]


async def both_up(scene: Scene, expected: list[str] = LISTED) -> None:
    async def is_so() -> bool:
        return await uris(scene) == expected

    await eventually_async(is_so)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "git/SKILL.md", skill_text("git"))
    write(tmp_path, "git/docs/branches.md", "Branches.")
    return tmp_path


@requirement("MCP2-skills", "MCP2-skills-folder")
async def test_skills_of_servers_and_folders_are_listed_got_and_read(folder: Path) -> None:
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        listed = await ask(scene, "skills/list")
        assert listed["skills"][0] == shelf.entry(REFUNDS), "as its server has it"
        assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
        assert listed["ttlMs"] >= 0
        got = await ask(scene, "skills/get", uri=REFUNDS)
        assert got["skill"] == shelf.entry(REFUNDS)
        assert "nextCursor" not in got
        for uri in ("skill://acme/refunds/forms/a.txt", REFUNDS, "skill://git/docs/branches.md"):
            read = await ask(scene, "resources/read", uri=uri)
            assert read["contents"][0]["uri"] == uri, "also what no list of resources has"
        discovered = await ask(scene, "server/discover")
        assert "Ask before you refund." in discovered["instructions"], "of a server that has no tools"
        assert discovered["capabilities"]["extensions"][EXTENSION] == {"directoryRead": True}
        session = await scene.shake_hands()
        assert [one["uri"] for one in (await scene.ask_in(session, "skills/list"))["skills"]] == LISTED
        assert "ttlMs" not in await scene.ask_in(session, "skills/get", uri=REFUNDS)


@requirement("MCP2-skills")
async def test_a_skill_that_is_not_listed_is_got_by_its_uri(folder: Path) -> None:
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        got = await ask(scene, "skills/get", uri="skill://secret-menu/SKILL.md")
        assert got["skill"] == shelf.entry("skill://secret-menu/SKILL.md")
        for uri in ("skill://nothing/SKILL.md", "skill://git/docs", "skill://acme/refunds", "jackfield://x/y/SKILL.md"):
            assert (await ask(scene, "skills/get", uri=uri))["code"] == -32602, uri


@requirement("MCP2-skills")
async def test_a_skill_that_two_servers_may_have_is_got_under_the_source_that_it_is_read_from(tmp_path: Path) -> None:
    async with skill_shelf() as one, skill_shelf() as two:
        servers = [f'[sources.{name}]\nkind = "mcp"\nurl = "{url}"\n' for name, url in (("a", one.url), ("b", two.url))]
        async with mcp_scene(tmp_path, "".join(servers)) as scene:
            await both_up(scene, [f"jackfield://b/{REFUNDS}", REFUNDS])
            got = (await ask(scene, "skills/get", uri="skill://secret-menu/SKILL.md"))["skill"]
            assert got["uri"] == "jackfield://a/skill://secret-menu/SKILL.md"
            assert "contents" in await ask(scene, "resources/read", uri=got["resources"][0]["uri"])
            again = (await ask(scene, "skills/get", uri=got["uri"]))["skill"]
            assert again == got


@requirement("MCP2-skills")
async def test_directories_are_read_by_the_server_or_from_the_manifest(folder: Path) -> None:
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        first = await ask(scene, "resources/directory/read", uri="skill://acme/refunds")
        assert [one.get("title") for one in first["resources"]] == ["Refunds"]
        cursor = first["nextCursor"]
        second = await ask(scene, "resources/directory/read", uri="skill://acme/refunds", cursor=cursor)
        assert [one["mimeType"] for one in second["resources"]] == ["inode/directory"]
        assert shelf.asked == [("skill://acme/refunds", None), ("skill://acme/refunds", "2")]
        own = await ask(scene, "resources/directory/read", uri="skill://git")
        assert [(one["uri"], one["mimeType"]) for one in own["resources"]] == [
            ("skill://git/SKILL.md", "text/markdown"),
            ("skill://git/docs", "inode/directory"),
        ]
        inner = await ask(scene, "resources/directory/read", uri="skill://git/docs")
        assert [one["name"] for one in inner["resources"]] == ["branches.md"]
        for uri in ("skill://git/SKILL.md", "skill://nothing", "skill://git/docs/"):
            assert (await ask(scene, "resources/directory/read", uri=uri))["code"] == -32602


@requirement("MCP2-skills")
async def test_a_listing_is_made_anew_now_and_then(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        shelf.listed.append("skill://secret-menu/SKILL.md")
        monkeypatch.setattr("jackfield.mcp.skills.LOOK_SECONDS", 0.0)
        await both_up(scene, [*LISTED, "skill://secret-menu/SKILL.md"])


@requirement("MCP2-skills-verified")
async def test_what_a_server_gives_must_be_what_its_entry_says(folder: Path) -> None:
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        shelf.texts["skill://acme/refunds/forms/a.txt"] = "Another form."
        read = await ask(scene, "resources/read", uri="skill://acme/refunds/forms/a.txt")
        assert read["contents"][0]["text"] == "Another form.", "its entry says so too by now"
        shelf.entries[REFUNDS] = shelf.entry(REFUNDS)
        shelf.texts["skill://acme/refunds/forms/a.txt"] = "Tampered with"
        refused = await ask(scene, "resources/read", uri="skill://acme/refunds/forms/a.txt")
        assert refused["data"] == {"code": "verification_failed"}
        assert "is refused, because its digest is not that of the skill's manifest." in refused["message"]
        await scene.gateway.source_registry.refresh("docs")
        (status,) = [one for one in scene.gateway.source_registry.statuses() if one.name == "docs"]
        assert status.faults == (
            "'skill://acme/refunds/forms/a.txt' was refused: its digest is not that of the skill's manifest.",
        )
        del shelf.entries[REFUNDS]
        assert "contents" in await ask(scene, "resources/read", uri="skill://acme/refunds/forms/a.txt")
        await scene.gateway.source_registry.refresh("docs")
        (status,) = [one for one in scene.gateway.source_registry.statuses() if one.name == "docs"]
        assert status.faults == ()


@requirement("MCP2-skills-verified")
async def test_front_matter_that_is_not_the_file_s_is_refused(folder: Path) -> None:
    shelf = SkillShelf()
    shelf.entries[REFUNDS] = {**shelf.entry(REFUNDS), "resources": "dynamic"}
    shelf.entries[REFUNDS]["frontmatter"] = {"name": "refunds", "description": "Quite another"}
    shelf.listed.append("skill://secret-menu/SKILL.md")
    shelf.entries["skill://secret-menu/SKILL.md"] = {"uri": "skill://secret-menu/SKILL.md", "frontmatter": {}}
    async with library(made=shelf), mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        refused = await ask(scene, "resources/read", uri=REFUNDS)
        assert "its front matter is not that of the skill's entry" in refused["message"]
        (status,) = [one for one in scene.gateway.source_registry.statuses() if one.name == "docs"]
        assert "is left out: its entry is invalid" in status.faults[0]


@requirement("MCP2-skills-seen")
async def test_a_key_sees_the_skills_of_its_groups_alone(folder: Path) -> None:
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        await both_up(scene)
        assert await uris(scene, key="teammate-key") == ["skill://git/SKILL.md"]
        for method in ("skills/get", "resources/read"):
            for uri in (REFUNDS, "skill://secret-menu/SKILL.md"):
                assert (await ask(scene, method, key="teammate-key", uri=uri))["code"] == -32602
        for uri in ("skill://acme/refunds", "skill://acme"):
            assert (await ask(scene, "resources/directory/read", key="teammate-key", uri=uri))["code"] == -32602
        assert shelf.asked == [], "its server was not even asked"
        scene.path = "/mcp/team"
        assert await uris(scene) == ["skill://git/SKILL.md"]


@requirement("MCP2-skills")
async def test_of_two_skills_with_one_uri_the_later_is_offered_under_its_source(folder: Path) -> None:
    write(folder, "acme/refunds/SKILL.md", skill_text("refunds", "The team's own"))
    async with skill_shelf() as shelf, mcp_scene(folder, config(shelf)) as scene:
        other = f"jackfield://docs/{REFUNDS}"
        await both_up(scene, [other, *LISTED])
        assert (await ask(scene, "skills/get", uri=REFUNDS))["skill"]["frontmatter"]["description"] == "The team's own"
        foreign = (await ask(scene, "skills/get", uri=other))["skill"]
        assert (foreign["uri"], foreign["frontmatter"]["description"]) == (other, "How refunds work")
        for file in foreign["resources"]:
            read = (await ask(scene, "resources/read", uri=file["uri"]))["contents"][0]
            assert (read["uri"], len(read["text"])) == (file["uri"], file["size"])
        inside = await ask(scene, "resources/directory/read", uri="jackfield://docs/skill://acme/refunds")
        assert [one["name"] for one in inside["resources"]] == ["SKILL.md", "forms"]


@requirement("MCP2-skills")
async def test_long_lists_of_skills_page(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path, f"s{number}/SKILL.md", skill_text(f"s{number}"))
    own = '[sources.team]\nkind = "skills"\npath = "skills"\n[auth.keys.other]\nkey = "other-key"\ntools = ["echo"]\n'
    async with mcp_scene(tmp_path, own) as scene:
        nothing = await ask(scene, "server/discover", key="other-key")
        assert nothing["capabilities"]["extensions"][EXTENSION] == {}, "no directory that it could read"
        first = await ask(scene, "skills/list")
        second = await ask(scene, "skills/list", cursor=first["nextCursor"])
        found = [skill["uri"] for skill in (*first["skills"], *second["skills"])]
        assert len(found) == len(set(found)) == 60
        assert "nextCursor" not in second
        assert (await ask(scene, "skills/list", cursor="?"))["code"] == -32602


async def test_the_example_serves(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "skills"
    copytree(example / "skills", tmp_path / "skills")
    async with mcp_scene(tmp_path, (example / "jackfield.toml").read_text()) as scene:
        assert await uris(scene) == ["skill://meeting-notes/SKILL.md", "skill://writing/commit-messages/SKILL.md"]
        (status,) = [one for one in scene.gateway.source_registry.statuses() if one.name == "team"]
        assert status.faults == ()
