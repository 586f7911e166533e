"""Pages for people: text that others wrote is shown as text, and without tricks."""

from jackfield.identity.pages import element, visible
from tests.requirement import requirement


@requirement("ID-attack-hidden-text")
def test_text_on_pages_is_escaped_and_loses_hidden_characters() -> None:
    said = element("p", "<b>Claude\u202e\u200b\u0000</b>", element("strong", "a\nb\u00a0c"), title="\u202e")
    assert said.markup == '<p title="\u202e">&lt;b&gt;Claude&lt;/b&gt;<strong>a b c</strong></p>'
    assert visible("naïve 名前") == "naïve 名前"
