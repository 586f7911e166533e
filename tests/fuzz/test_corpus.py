"""Every parser at a border refuses what it cannot read as it promises: the kept corpus, and mutations of it.

`make fuzz` looks for more, for as long as it is told to.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets import CORPUS, TARGETS, seeds, words
from tests.examples import examples
from tests.requirement import requirement

EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.integers(0, 2**16)), min_size=1, max_size=6)


def mutated(name: str, seed: bytes, edits: list[tuple[float, int, int]]) -> bytes:
    """`seed` with some places cut out, and a word, a byte or a part of itself put there."""
    vocabulary = words(name)
    for place, cut, choice in edits:
        at = int(place * len(seed))
        new = [
            vocabulary[choice % len(vocabulary)] if vocabulary else b"",
            bytes([choice % 256]),
            seed[choice % 64 : at],
        ]
        seed = seed[:at] + new[choice % 3] + seed[at + cut :]
    return seed


@requirement("FUZZ-corpus")
@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_is_refused_as_promised(name: str) -> None:
    for seed in seeds(name):
        TARGETS[name](seed)


@requirement("FUZZ-corpus")
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_like_it_is_too(name: str) -> None:
    kept = seeds(name)

    @settings(max_examples=examples(40))
    @given(st.sampled_from(kept), EDITS)
    def run(seed: bytes, edits: list[tuple[float, int, int]]) -> None:
        TARGETS[name](mutated(name, seed, edits))

    run()


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert all(seeds(name) for name in TARGETS)
