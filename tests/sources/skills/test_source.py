"""`kind = "skills"`: a folder of skills, followed as it changes; nothing outside of it, and nothing without bounds."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.errors import ConfigError
from jackfield.model.call import Done, Failed
from jackfield.model.resource import read_of
from jackfield.model.skill import digest_of
from jackfield.sources.base import Listing, SourceContext
from jackfield.sources.skills import folder as folders
from jackfield.sources.skills.entries import MAX_BYTES
from jackfield.sources.skills.source import SkillsSource, skills_source
from jackfield.workers.host import WorkerHost
from tests.requirement import requirement
from tests.sources.invocations import invocation_of

NOT_NEEDED: Any = None


def context_of(folder: Path, changed: Callable[[str], None] = lambda _: None) -> SourceContext:
    return SourceContext(
        folder=folder,
        data=folder / ".jackfield",
        changed=changed,
        secret=lambda _: None,
        config=dict,
        registry=list,
        call_tool=NOT_NEEDED,
        ask_model=NOT_NEEDED,
        outgoing=None,
        worker_host=WorkerHost(folder / ".jackfield" / "workers", redact=str),
    )


def skill_text(name: str, description: str = "What it is for") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n"


def write(folder: Path, path: str, text: str | bytes = "x") -> Path:
    target = folder / "skills" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode() if isinstance(text, str) else text)
    return target


@asynccontextmanager
async def source(folder: Path, changed: Callable[[str], None] = lambda _: None) -> AsyncIterator[SkillsSource]:
    (folder / "skills").mkdir(exist_ok=True)
    made = skills_source("team", {"path": "skills"}, context_of(folder, changed=changed))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def read(made: SkillsSource, uri: str) -> Any:
    outcome = await made.execute(invocation_of(read_of("team", uri), uri=uri))
    if isinstance(outcome, Failed):
        return outcome
    assert isinstance(outcome, Done)
    return msgspec.json.decode(outcome.result)["contents"][0]


def uris(listing: Listing) -> list[str]:
    return [skill.uri for skill in listing.skills]


@requirement("MCP2-skills-folder")
async def test_a_folder_of_skills_is_listed_and_read(tmp_path: Path) -> None:
    text = skill_text("refunds", "How refunds work")
    write(tmp_path, "acme/refunds/SKILL.md", text)
    write(tmp_path, "acme/refunds/references/a b.txt", "A guide")
    write(tmp_path, "acme/refunds/logo.bin", b"\x00\xff")
    write(tmp_path, "git/SKILL.md", skill_text("git"))
    write(tmp_path, "git/.hidden", "x")
    write(tmp_path, "README.md", "Not a skill's")
    async with source(tmp_path) as made:
        listing = await made.refresh()
        assert listing.faults == ()
        refunds, git = listing.skills
        assert refunds.listed(lambda uri: uri) == {  # type: ignore[arg-type]
            "uri": "skill://acme/refunds/SKILL.md",
            "frontmatter": {"name": "refunds", "description": "How refunds work"},
            "resources": [
                {"uri": f"skill://acme/refunds/{name}", "digest": digest_of(content), "size": len(content)}
                for name, content in (
                    ("SKILL.md", text.encode()),
                    ("logo.bin", b"\x00\xff"),
                    ("references/a%20b.txt", b"A guide"),
                )
            ],
        }
        assert [file.uri for file in git.files or ()] == ["skill://git/SKILL.md"]
        described = {one.uri: one.listed for one in listing.resources}
        assert described["skill://acme/refunds/SKILL.md"] == {
            "uri": "skill://acme/refunds/SKILL.md",
            "name": "refunds",
            "description": "How refunds work",
            "mimeType": "text/markdown",
            "size": len(text),
        }
        assert described["skill://acme/refunds/logo.bin"]["mimeType"] == "application/octet-stream"
        assert await read(made, "skill://acme/refunds/SKILL.md") == {
            "uri": "skill://acme/refunds/SKILL.md",
            "mimeType": "text/markdown",
            "text": text,
        }
        assert (await read(made, "skill://acme/refunds/logo.bin"))["blob"] == "AP8="
        assert (await read(made, "skill://acme/refunds/references/a%20b.txt"))["text"] == "A guide"
        assert made.can_execute(read_of("team", "skill://git/SKILL.md"))
        assert (await made.refresh()).resources is listing.resources, "nothing changed"


@requirement("MCP2-skills-folder")
async def test_the_folder_may_be_a_skill_itself_and_skills_may_nest(tmp_path: Path) -> None:
    write(tmp_path, "SKILL.md", skill_text("skills"))
    write(tmp_path, "docs/x.md", "x")
    write(tmp_path, "inner/SKILL.md", skill_text("inner"))
    async with source(tmp_path) as made:
        listing = await made.refresh()
        assert uris(listing) == ["skill://skills/SKILL.md", "skill://skills/inner/SKILL.md"]
        assert [file.uri for file in listing.skills[0].files or ()] == [
            "skill://skills/SKILL.md",
            "skill://skills/docs/x.md",
            "skill://skills/inner/SKILL.md",
        ]
        assert (await read(made, "skill://skills/inner/SKILL.md"))["text"] == skill_text("inner")


@requirement("MCP2-skills-verified")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Refunds", "its SKILL.md does not begin with front matter"),
        (skill_text("other"), "its name is 'other', but its folder is called 'refunds'. Rename one of them"),
        ("---\nname: refunds\n---\n", "its description is not a text of 1 to 1,024 characters"),
        (skill_text("refunds", "Hidden\u200b"), "its front matter has hidden characters"),
    ],
)
async def test_a_skill_that_breaks_a_rule_is_left_out_with_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, "refunds/SKILL.md", text)
    write(tmp_path, "git/SKILL.md", skill_text("git"))
    async with source(tmp_path) as made:
        listing = await made.refresh()
        assert uris(listing) == ["skill://git/SKILL.md"]
        (fault,) = listing.faults
        assert fault.startswith(f"Skill 'skills/refunds' is left out: {said}")
        assert isinstance(await read(made, "skill://refunds/SKILL.md"), Failed)


@requirement("MCP2-skills-hostile")
async def test_nothing_outside_the_folder_is_offered(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    write(tmp_path, "git/SKILL.md", skill_text("git"))
    inside = write(tmp_path, "git/guide.md", "A guide")
    root = tmp_path / "skills" / "git"
    (root / "same.md").symlink_to(inside)
    (root / "out.txt").symlink_to(secret)
    (root / "away").symlink_to(tmp_path)
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    (root / "od\nd.txt").write_text("x")
    (root / os.fsdecode(b"\xff.txt")).write_text("x")
    (tmp_path / "skills" / "stolen").symlink_to(tmp_path)
    async with source(tmp_path) as made:
        listing = await made.refresh()
        assert [file.uri for file in listing.skills[0].files or ()] == [
            "skill://git/SKILL.md",
            "skill://git/guide.md",
            "skill://git/same.md",
        ]
        assert sorted(listing.faults) == [
            "'skills/git/?.txt' is left out: its name has characters that are not shown.",
            "'skills/git/away' is left out: it is a link that leads out of the folder.",
            "'skills/git/loop' is left out: it is a link to something that is not a file.",
            "'skills/git/od d.txt' is left out: its name has characters that are not shown.",
            "'skills/git/out.txt' is left out: it is a link that leads out of the folder.",
            "'skills/git/pipe' is left out: it is not a plain file.",
            "'skills/stolen' is left out: it is a link that leads out of the folder.",
        ]
        for uri in (
            "skill://git/out.txt",
            "skill://git/../../secret.txt",
            "skill://git/%2e%2e/secret.txt",
            "/etc/passwd",
        ):
            refused = await read(made, uri)
            assert isinstance(refused, Failed)
            assert refused.code == "not_found"
        inside.unlink()
        inside.symlink_to(secret)  # between the listing and the read
        swapped = await read(made, "skill://git/guide.md")
        assert isinstance(swapped, Failed)
        assert swapped.code == "verification_failed"
        assert "secret" not in swapped.message


@requirement("MCP2-skills-hostile")
async def test_size_number_and_depth_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "large/SKILL.md", skill_text("large"))
    with write(tmp_path, "large/a.bin").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    write(tmp_path, "many/SKILL.md", skill_text("many"))
    for number in range(512):
        write(tmp_path, f"many/{number}.txt")
    write(tmp_path, "/".join(["deep"] * 20) + "/SKILL.md", skill_text("deep"))
    async with source(tmp_path) as made:
        listing = await made.refresh()
        assert listing.skills == ()
        said = "\n".join(listing.faults)
        assert "Skill 'skills/large' is left out: 'skills/large/a.bin' cannot be used: it is too large" in said
        assert "Skill 'skills/many' is left out: it has more than the 512 files allowed." in said
        assert "levels deep" in said
        monkeypatch.setattr(folders, "MAX_FOLDER_FILES", 100)
        assert "The folder has more than 100 files" in "\n".join((await made.refresh()).faults)


@requirement("MCP2-skills-folder")
async def test_changes_are_noticed_and_refused_until_they_are_listed(tmp_path: Path) -> None:
    heard = asyncio.Event()
    guide = write(tmp_path, "git/guide.md", "One")
    write(tmp_path, "git/SKILL.md", skill_text("git"))
    async with source(tmp_path, changed=lambda _: heard.set()) as made, asyncio.timeout(30):
        before = await made.refresh()
        guide.write_text("Two")
        changed = await read(made, "skill://git/guide.md")
        assert isinstance(changed, Failed)
        assert (changed.code, heard.is_set()) == ("verification_failed", True)
        after = await made.refresh()
        assert (await read(made, "skill://git/guide.md"))["text"] == "Two"
        assert before.skills != after.skills
        heard.clear()
        write(tmp_path, "new/SKILL.md", skill_text("new"))
        await heard.wait()
        assert uris(await made.refresh()) == ["skill://git/SKILL.md", "skill://new/SKILL.md"]


async def test_a_folder_that_is_missing_or_empty_is_a_fault(tmp_path: Path) -> None:
    async with source(tmp_path) as made:
        assert (await made.refresh()).faults == (
            f"{tmp_path / 'skills'} has no skill: no directory in it has a SKILL.md.",
        )
        (tmp_path / "skills").rmdir()
        (fault,) = (await made.refresh()).faults
        assert fault.startswith(f"There is no folder {tmp_path / 'skills'}.")


def test_its_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sources\.team needs the key 'path'"):
        skills_source("team", {}, context_of(tmp_path))
