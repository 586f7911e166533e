import pytest

from jackfield.model.text import counted, with_article


@pytest.mark.parametrize(("number", "said"), [(0, "0 tools"), (1, "1 tool"), (2, "2 tools")])
def test_a_number_and_its_noun_agree(number: int, said: str) -> None:
    assert counted(number, "tool") == said


@pytest.mark.parametrize(
    ("word", "said"), [("object", "an object"), ("int", "an int"), ("dict", "a dict"), ("UUID", "a UUID"), ("", "a ")]
)
def test_a_word_has_the_article_that_it_is_spoken_with(word: str, said: str) -> None:
    assert with_article(word) == said
