"""What a skill must be, and when what was read of it is refused."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.model.skill import Skill, SkillFile, digest_of
from jackfield.sources.skills.entries import (
    MAX_BYTES,
    MAX_FILES,
    BadSkill,
    content_in,
    entry_of,
    frontmatter_in,
    mismatch,
    skills_of,
)
from tests.requirement import requirement

TEXT = b"---\nname: refunds\ndescription: How refunds work\nmetadata:\n  version: 1.0\n---\n\n# Refunds\n"
ROOT = "skill://acme/refunds"
FRONTMATTER = {"name": "refunds", "description": "How refunds work", "metadata": {"version": 1.0}}


def entry(**other: Any) -> dict[str, Any]:
    own = {"uri": f"{ROOT}/SKILL.md", "digest": digest_of(TEXT), "size": len(TEXT)}
    return {"uri": f"{ROOT}/SKILL.md", "frontmatter": FRONTMATTER, "resources": [own], **other}


def read(value: Any) -> Skill:
    return entry_of(Raw(msgspec.json.encode(value)), source="docs")


def file(uri: str, size: int = 1) -> dict[str, Any]:
    return {"uri": uri, "digest": digest_of(b"x"), "size": size}


def test_an_entry_is_passed_on_as_it_is() -> None:
    assert read(entry()).listed(lambda uri: uri) == entry()  # type: ignore[arg-type]
    assert read(entry(resources="dynamic")).files is None
    marked = entry(_meta={"com.example/by": "ops", "io.modelcontextprotocol/subscriptionId": 1}, later=[1])
    more = {"_meta": {"com.example/by": "ops"}, "later": [1]}
    assert read(marked).listed(lambda uri: uri) == {**entry(), **more}  # type: ignore[arg-type]
    assert read(entry(note="od\u200bd")).more == {}


@requirement("MCP2-skills-hostile")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"uri": f"{ROOT}/README.md"}, "is not that of a SKILL.md"),
        ({"uri": "SKILL.md"}, "is not that of a SKILL.md"),
        ({"uri": "skill://acme/../refunds/SKILL.md"}, "is not that of a SKILL.md"),
        ({"uri": "skill://acme/re\u202efunds/SKILL.md"}, "is not that of a SKILL.md"),
        ({"uri": "skill://acme/other/SKILL.md"}, "its name is 'refunds', but its folder is called 'other'"),
        ({"frontmatter": {"name": "refunds"}}, "its description is not a text"),
        ({"frontmatter": {"name": "Refunds", "description": "x"}}, "its name is not 1 to 64"),
        ({"frontmatter": {"name": "re--funds", "description": "x"}}, "its name is not 1 to 64"),
        ({"frontmatter": {"name": "refunds", "description": "x" * 1025}}, "its description is not a text"),
        ({"frontmatter": {"name": "refunds", "description": "Do\u200b it"}}, "hidden characters"),
        ({"frontmatter": {"name": "refunds", "description": "x", "a": "y" * 70_000}}, "more than the 65,536 bytes"),
        ({"resources": None}, "its entry is invalid"),
        ({"resources": "none"}, "neither a list nor 'dynamic'"),
        ({"resources": []}, "lacks its SKILL.md"),
        ({"resources": [*entry()["resources"], file("skill://acme/other/x")]}, "is not in its folder"),
        ({"resources": [*entry()["resources"], file(f"{ROOT}/../x")]}, "is not in its folder"),
        ({"resources": entry()["resources"] * 2}, "lists a file twice"),
        ({"resources": [*entry()["resources"], file(f"{ROOT}/a", -1)]}, "its entry is invalid"),
        ({"resources": [{**entry()["resources"][0], "digest": "sha256:ABC"}]}, "its entry is invalid"),
        ({"resources": [file(f"{ROOT}/{number}") for number in range(MAX_FILES + 1)]}, "it has 513 files"),
        ({"resources": [*entry()["resources"], file(f"{ROOT}/a", MAX_BYTES)]}, "16,777,216 are allowed"),
    ],
)
def test_an_entry_that_breaks_a_rule_is_left_out(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSkill) as raised:
        read(entry(**changed))
    assert said in str(raised.value)


@requirement("MCP2-skills-hostile")
def test_a_listing_keeps_what_is_good_and_says_what_is_not() -> None:
    nested = {"name": "inner", "description": "Another"}
    clash = {"uri": f"{ROOT}/inner/SKILL.md", "frontmatter": nested, "resources": [file(f"{ROOT}/inner/SKILL.md")]}
    listed = [entry(), entry(), {"uri": 1}, clash, {**entry(), "uri": 5}]
    outer = entry(resources=[*entry()["resources"], file(f"{ROOT}/inner/SKILL.md", 2)])
    skills, faults = skills_of([Raw(msgspec.json.encode(one)) for one in (outer, *listed)], source="docs")
    assert [skill.uri for skill in skills] == [f"{ROOT}/SKILL.md"]
    assert len(faults) == 5
    assert faults[0] == f"Skill '{ROOT}/SKILL.md' is left out: it is listed twice; the first is used."
    assert "lists 'skill://acme/refunds/inner/SKILL.md' with another digest or size" in faults[3]
    many = [Raw(msgspec.json.encode({"uri": "x"}))] * 1001
    assert skills_of(many, source="docs")[1][-1].startswith("The server lists more than 1,000 skills")


def test_front_matter_is_read_as_yaml_1_2_with_every_field() -> None:
    text = "---\r\nname: a\r\ndescription: |\r\n  Two\r\n  lines\r\nlicense: no\r\nsince: 2026-01-31\r\n---\r\nText"
    found = frontmatter_in(text.encode())
    assert found == {"name": "a", "description": "Two\nlines\n", "license": "no", "since": "2026-01-31"}
    assert frontmatter_in(b"\xef\xbb\xbf" + TEXT) == FRONTMATTER


@requirement("MCP2-skills-hostile")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"# Refunds", "does not begin with front matter"),
        (b"---\nname: a\ndescription: b\n", "does not begin with front matter"),
        (b"\n---\nname: a\n---\n", "does not begin with front matter"),
        (b"---\n[1, 2]\n---\n", "its front matter is not a mapping"),
        (b"---\nname: [\n---\n", "its front matter is not valid YAML"),
        (b"---\n\xff: x\n---\n", "its front matter is not valid YAML"),
        (b"---\nname: a\ndescription: b\nx: " + b"y" * 70_000 + b"\n---\n", "does not begin with front matter"),
        (b"---\na: &a [*a]\nname: a\n---\n", "its front matter is not valid YAML"),
    ],
)
def test_front_matter_that_cannot_be_read(text: bytes, said: str) -> None:
    with pytest.raises(BadSkill, match=said):
        frontmatter_in(text)


@requirement("MCP2-skills-verified")
def test_content_must_have_the_size_the_digest_and_the_front_matter_of_the_entry() -> None:
    skill = read(entry())
    assert skill.files is not None
    own, uri = skill.files[0], skill.uri
    assert mismatch(skill, own, TEXT, uri=uri) is None
    assert (
        mismatch(skill, own, TEXT + b"!", uri=uri)
        == f"it has {len(TEXT) + 1} bytes, and {len(TEXT)} by the skill's manifest"
    )
    assert mismatch(skill, own, TEXT[:-2] + b"!\n", uri=uri) == "its digest is not that of the skill's manifest"
    other = TEXT.replace(b"How", b"Why")
    as_listed = SkillFile(uri=uri, digest=digest_of(other), size=len(other))
    assert mismatch(skill, as_listed, other, uri=uri) == "its front matter is not that of the skill's entry"
    assert mismatch(skill, None, other, uri=uri) == "its front matter is not that of the skill's entry"
    assert mismatch(skill, None, b"", uri=f"{ROOT}/a.txt") is None


def test_the_bytes_of_a_read() -> None:
    def of(*parts: Any) -> bytes | None:
        return content_in(Raw(msgspec.json.encode({"contents": parts})))

    assert of({"uri": "x", "text": "é"}) == "é".encode()
    assert of({"uri": "x", "blob": "AAE="}) == b"\x00\x01"
    assert of({"uri": "x", "blob": "?"}) is None
    assert of() is None
    assert of({"text": "a"}, {"text": "b"}) is None
