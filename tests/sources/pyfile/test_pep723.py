from textwrap import dedent

import pytest

from jackfield.sources.pyfile.pep723 import find_header, read_metadata
from tests.requirement import requirement

BLOCK = """\
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "httpx2",
# ]
#
# [tool.uv]
# exclude-newer = 2026-01-01T00:00:00Z
# ///
import httpx2
"""


@requirement("WORK-pep723-strips-prefix", "WORK-pep723-loads", "WORK-pep723-tomllib")
def test_a_block_is_read_as_toml_without_its_comment_signs() -> None:
    metadata = read_metadata(BLOCK)

    assert metadata is not None
    assert metadata["requires-python"] == ">=3.11"
    assert metadata["dependencies"] == ["httpx2"]
    assert metadata["tool"]["uv"]["exclude-newer"].year == 2026


def test_a_file_without_a_block_has_no_header() -> None:
    assert find_header("def hello(): ...\n") is None
    assert read_metadata("def hello(): ...\n") is None


@pytest.mark.parametrize("quote", ['"""', "'''"])
def test_a_block_inside_a_string_is_only_text(quote: str) -> None:
    source = f"EXAMPLE = {quote}\n{BLOCK}{quote}\n"

    assert find_header(source) is None


def test_an_indented_block_is_only_a_comment() -> None:
    assert find_header("if True:\n    # /// script\n    # ///\n    pass\n") is None


@requirement("WORK-pep723-malformed")
def test_malformed_toml_gives_none_but_is_told_from_no_block() -> None:
    source = "# /// script\n# dependencies = [oops\n# ///\n"

    header = find_header(source)

    assert read_metadata(source) is None
    assert header is not None
    assert header.line == 1
    assert header.fault is not None
    assert header.fault.startswith("the block is not valid TOML: ")


@pytest.mark.parametrize(
    "source",
    [
        "# /// script\n# dependencies = []\nimport os\n",
        "# /// script\n# dependencies = []\n\n# ///\n",
        "# /// script\n#dependencies = []\n# ///\n",
    ],
)
def test_a_block_that_is_not_closed_is_malformed_not_absent(source: str) -> None:
    header = find_header(source)

    assert header is not None
    assert header.metadata is None
    assert header.fault == "the block has no closing line '# ///', or a line in it does not start with '#'"


def test_two_blocks_are_malformed() -> None:
    header = find_header("# /// script\n# a = 1\n# ///\n\n# /// script\n# b = 1\n# ///\n")

    assert header is not None
    assert header.fault == "there is more than one '# /// script' block"


def test_an_empty_block_is_a_block() -> None:
    header = find_header('"""Doc."""\n# /// script\n# ///\n')

    assert header is not None
    assert header.metadata == {}
    assert header.line == 2


def test_a_block_ends_at_the_last_closing_line_of_its_comments() -> None:
    source = dedent("""\
        # /// script
        # text = '''
        # ///
        # '''
        # ///
        """)

    assert read_metadata(source) == {"text": "///\n"}


def test_blocks_of_other_types_are_none_of_ours() -> None:
    assert find_header("# /// pyproject\n# a = 1\n# ///\n") is None


def test_a_block_before_a_syntax_error_is_still_found() -> None:
    header = find_header(BLOCK + "\nx = (\n")

    assert header is not None
    assert header.metadata is not None
