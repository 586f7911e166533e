"""Ranked search over the catalog: an inverted index that is never changed, only followed by the next one.

Above: `view.py`. Below: nothing. A tool is found by words of its name, tags, category, parameters and description, in
that order of weight; `getWeatherNow`, `get_weather_now` and "weather now" are the same words, a plural is its
singular, a beginning (`wea`) finds the whole word, and a word that nobody uses is tried with one letter wrong. The
query that is a tool's name finds that tool first. Ties go by name.

`Index.following` copies only the postings that a change touches: one tool among 10,000 costs a few milliseconds.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from heapq import nsmallest
from itertools import islice

from jackfield.catalog.merge import Entry
from jackfield.catalog.names import legal
from jackfield.model.tool import JsonSchema

NAME, TAGS, CATEGORY, PARAMETERS, DESCRIPTION = 12, 6, 5, 3, 2
"""What one word counts, by where it stands."""

_WORDS = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_TEXT = 2_000
_MAX_TERMS = 12
_MAX_QUERY = 1_000
_MAX_COMPLETIONS = 24
_MIN_BEGINNING = 2
_MIN_PLURAL = 4
_TYPO_LENGTHS = range(4, 25)
_FILLERS = frozenset({"a", "an", "and", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to", "with"})
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_COMMON = 1_500
"""A word that more tools have than this only ranks what rarer words of the query have found."""

Posting = dict[str, int]
"""Tool name → what the word counts in that tool."""


class Index:
    """Which words stand in which tools."""

    __slots__ = ("_postings", "_size", "_vocabulary")

    def __init__(self, postings: Mapping[str, Posting] | None = None, size: int = 0) -> None:
        self._postings = postings or {}
        self._vocabulary = sorted(self._postings)
        self._size = size

    def following(self, *, removed: Iterable[Entry], added: Iterable[Entry]) -> "Index":
        """The index after these tools went and came. This one stays as it is."""
        changes: dict[str, dict[str, int | None]] = {}
        size = self._size
        for entry in removed:
            size -= 1
            for word in weights(entry):
                changes.setdefault(word, {})[entry.name] = None
        for entry in added:
            size += 1
            for word, weight in weights(entry).items():
                changes.setdefault(word, {})[entry.name] = weight
        if not changes:
            return self
        postings = dict(self._postings)
        for word, change in changes.items():
            posting = _changed(postings.get(word, {}), change)
            if posting:
                postings[word] = posting
            else:
                postings.pop(word, None)
        return Index(postings, size)

    def find(self, query: str, *, limit: int, among: AbstractSet[str] | None = None) -> list[str]:
        """Names of the best `limit` tools, best first; of those in `among` only, where it is given."""
        query = query.strip()[:_MAX_QUERY]
        scores: dict[str, float] = {}
        matched: Counter[str] = Counter()
        for terms in sorted((self._terms(word) for word in _asked_for(query)), key=self._tools_with):
            worth = self._worth(terms, found=scores, among=among)
            for name, value in worth.items():
                scores[name] = scores.get(name, 0.0) + value
            matched.update(worth.keys())
        asked = legal(query).lower()
        ranked = ((name.lower() != asked, -score * matched[name], name) for name, score in scores.items())
        return [name for _, _, name in nsmallest(limit, ranked)]

    def _terms(self, word: str) -> dict[str, float]:
        """Words of the index that `word` may mean, with how surely."""
        terms = {word: 1.0} if word in self._postings else {}
        terms |= {whole: 0.7 * len(word) / len(whole) for whole in self._completions(word) if whole != word}
        return terms or dict.fromkeys(self._one_letter_off(word), 0.4)

    def _completions(self, word: str) -> list[str]:
        if len(word) < _MIN_BEGINNING:
            return []
        start = bisect_left(self._vocabulary, word)
        end = bisect_left(self._vocabulary, word + "\U0010ffff", lo=start)
        return nsmallest(_MAX_COMPLETIONS, islice(self._vocabulary, start, end), key=len)

    def _one_letter_off(self, word: str) -> list[str]:
        if len(word) not in _TYPO_LENGTHS:
            return []
        halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
        tries = {left + right[1:] for left, right in halves if right}
        tries |= {left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1}
        tries |= {left + letter + right[1:] for left, right in halves if right for letter in _LETTERS}
        tries |= {left + letter + right for left, right in halves for letter in _LETTERS}
        return sorted(tries & self._postings.keys())

    def _tools_with(self, terms: Mapping[str, float]) -> int:
        return sum(len(self._postings[term]) for term in terms)

    def _worth(
        self, terms: Mapping[str, float], *, found: Mapping[str, float], among: AbstractSet[str] | None
    ) -> dict[str, float]:
        """What one word of the query is worth in each tool: more for a rare word, more in a weighty place."""
        best: dict[str, float] = {}
        for term, sureness in terms.items():
            posting = self._postings[term]
            worth = sureness * math.log(1 + self._size / len(posting))
            names: Iterable[str] = posting if among is None else posting.keys() & among
            if found and len(posting) > _COMMON:
                names = posting.keys() & found.keys()
            for name in names:
                value = worth * posting[name]
                if value > best.get(name, 0.0):
                    best[name] = value
        return best


def weights(entry: Entry) -> Posting:
    """The words of a tool and what each counts: the sum of its places. Words of a short name count a little more."""
    tool = entry.tool
    counted: Posting = {}
    for text, weight in (
        (entry.name, NAME + round(NAME / 2 / max(1, len(_words(entry.name))))),
        (" ".join(tool.metadata.tags), TAGS),
        (tool.category or "", CATEGORY),
        (" ".join(_parameters(tool.input_schema)), PARAMETERS),
        (tool.description, DESCRIPTION),
    ):
        for word in _indexed(text):
            counted[word] = counted.get(word, 0) + weight
    return counted


def _parameters(schema: JsonSchema) -> list[str]:
    properties = schema.get("properties")
    return [str(name) for name in properties] if isinstance(properties, dict) else []


def _asked_for(query: str) -> list[str]:
    """The words that a query is about; those of every sentence only where there are no others."""
    words = list(dict.fromkeys(_words(query)))
    return ([word for word in words if word not in _FILLERS] or words)[:_MAX_TERMS]


def _indexed(text: str) -> set[str]:
    """The words of `text`, and its compounds as they stand (`getWeather` is also found as `getweather`)."""
    start = text[:_MAX_TEXT]
    apart = _HUMPS.sub(" ", start)
    found = {*_simple_words(apart)}
    return found if apart == start else found.union(_simple_words(start))


def _words(text: str) -> list[str]:
    """Lower-case words, compound names taken apart, plurals made singular."""
    return _simple_words(_HUMPS.sub(" ", text))


def _simple_words(text: str) -> list[str]:
    return [
        word[:-1] if word[-1] == "s" and len(word) >= _MIN_PLURAL and word[-2] != "s" else word
        for word in _WORDS.findall(text.lower())
    ]


def _changed(posting: Posting, change: Mapping[str, int | None]) -> Posting:
    kept = {**posting, **change}
    return {name: weight for name, weight in kept.items() if weight is not None}
