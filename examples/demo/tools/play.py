"""Small tools to try first: dice, fortunes, words, greetings.

Every public function of a tool file is a tool. Its type hints make the schema that arguments are checked against, its
docstring is what a model is told. Change this file while the gateway runs: the next call uses the new text.
"""

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

FORTUNES = (
    "A patch cable you thought lost will come back.",
    "Somebody will read your documentation and write to thank you.",
    "The bug is in the line above the one you look at.",
    "You will soon delete more code than you write, and be glad.",
)

Language = Literal["arabic", "english", "french", "greek", "hindi", "japanese", "swahili"]

GREETINGS: dict[Language, str] = {
    "arabic": "مرحبا، {name}",
    "english": "Hello, {name}",
    "french": "Bonjour, {name}",
    "greek": "Γειά σου, {name}",
    "hindi": "नमस्ते, {name}",
    "japanese": "こんにちは、{name}さん",
    "swahili": "Habari, {name}",
}


@dataclass
class Roll:
    rolls: list[int]
    total: int


@dataclass
class Frequency:
    word: str
    count: int


@dataclass
class Statistics:
    characters: int
    words: int
    sentences: int
    frequent: list[Frequency]


def roll_dice(
    count: Annotated[int, Meta(ge=1, le=100)] = 2,
    sides: Literal[4, 6, 8, 10, 12, 20, 100] = 6,
    seed: int | None = None,
) -> Roll:
    """Roll dice and add them up.

    Args:
        count: How many dice.
        sides: How many sides each one has.
        seed: For the same dice again: one seed always rolls the same.
    """
    dice = random.Random(seed)
    rolls = [dice.randint(1, sides) for _ in range(count)]
    return Roll(rolls, sum(rolls))


def tell_fortune(name: str) -> str:
    """Tell somebody's fortune. The demo's config allows three fortunes a minute.

    Args:
        name: Whose fortune to tell.
    """
    return f"{name}: {FORTUNES[sum(name.encode()) % len(FORTUNES)]}"


def text_statistics(text: str, top: Annotated[int, Meta(ge=0, le=50)] = 3) -> Statistics:
    """Count the characters, words and sentences of a text, and name its most frequent words.

    Args:
        text: The text to look at, in any language.
        top: How many of the most frequent words to name.
    """
    words = re.findall(r"\w+", text.casefold())
    sentences = [part for part in re.split(r"[.!?…。؟]+", text) if part.strip()]
    frequent = sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))
    return Statistics(
        characters=len(text),
        words=len(words),
        sentences=len(sentences),
        frequent=[Frequency(word, count) for word, count in frequent[:top]],
    )


def greet(name: str, languages: list[Language] | None = None) -> dict[str, str]:
    """Greet somebody in many languages.

    Args:
        name: Whom to greet.
        languages: Which languages to use; all of them if left out.
    """
    return {language: GREETINGS[language].format(name=name) for language in languages or sorted(GREETINGS)}
