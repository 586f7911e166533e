"""The code speaks the field's language: names of the old private metaphor do not come back."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/jackfield"
GONE = re.compile(
    r"(?i)^_?(visit|reception|doors?|doorway|discretion|desk|household|persona|deeds?|telling|shelf|panel|workshop"
    r"|surroundings|rooms|step_?taker|heard_?call|errands?|journey|keepers?|consciousness)$"
)


def names_in(path: Path) -> set[str]:
    """Every name that the module binds or takes: definitions, arguments, variables, attributes."""
    names: set[str] = {path.stem}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
    return names


def test_no_name_of_the_old_metaphor_is_left() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in names_in(path)
        if GONE.match(name)
    }
    assert found == set()
