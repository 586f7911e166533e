import pytest

from bench.figures import MILLISECONDS, RATE, Bar, Figure, Line, Sample, lines_beside, percentile, take_turns
from bench.table import HOLDS, MISSED, NOISY, table, verdict


def figure(*values: float, unit: str = RATE) -> Figure:
    return Figure(unit=unit, samples=tuple(Sample(value=value, cpu_us=value / 10) for value in values))


def test_sides_take_turns_after_one_round_that_does_not_count() -> None:
    order: list[str] = []

    def side(name: str) -> str:
        order.append(name)
        return f"{name}{len(order)}"

    ours, reference = take_turns(2, lambda: side("a"), lambda: side("b"))

    assert order == ["a", "b", "a", "b", "a", "b"]
    assert (ours, reference) == (("a3", "a5"), ("b4", "b6"))


def test_a_ratio_compares_within_rounds_so_that_a_slow_round_does_not_count() -> None:
    line = Line(says="row", ours=figure(40, 4, 44), reference=figure(100, 10, 100))

    assert line.ratio is not None
    assert line.ratio.value == pytest.approx(0.4)
    assert line.ours.value == 40


def test_the_spread_is_half_of_what_lies_between_the_outer_rounds_without_the_odd_one() -> None:
    assert figure(90, 100, 130).spread == pytest.approx(0.2)
    assert figure(1, *[90] * 9, *[100] * 2, *[110] * 9, 900).spread == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ((40, 40, 40), HOLDS),
        ((39, 38, 41), NOISY),
        ((20, 20, 20), MISSED),
        ((20, 21, 19), MISSED),
    ],
)
def test_a_miss_that_is_smaller_than_the_noise_is_said_to_be_that(ours: tuple[float, ...], expected: str) -> None:
    line = Line(says="row", ours=figure(*ours), reference=figure(100, 100, 100), bar=Bar(limit=0.4, at_least=True))

    assert verdict(line) == expected


@pytest.mark.parametrize(("took", "expected"), [(4.9, HOLDS), (5.2, MISSED)])
def test_a_bar_on_our_own_figure_is_an_upper_one(took: float, expected: str) -> None:
    line = Line(says="row", ours=figure(took, took, unit=MILLISECONDS), bar=Bar(limit=5, of_ratio=False))

    assert verdict(line) == expected


def test_a_line_without_a_bar_or_a_reference_has_no_verdict_and_no_ratio() -> None:
    line = Line(says="row", ours=figure(4, unit=MILLISECONDS))

    assert table([line]).splitlines()[2] == "| row | 4.00 ms ±0 % | – | – | – | 0.40 µs | – |"


def test_the_table_shows_both_sides_the_ratio_the_bar_and_the_processor_time() -> None:
    line = Line(
        says="row",
        ours=figure(4000, 4000),
        reference=figure(8000, 8000),
        reference_is="bare",
        bar=Bar(limit=0.4, at_least=True),
    )

    shown = table([line]).splitlines()[2]
    assert shown == "| row | 4,000/s ±0 % | 8,000/s ±0 % bare | 0.50 ±0 % | ≥ 0.40 | 400 µs / 800 µs | holds |"


def test_a_percentile_of_few_values_is_one_of_them() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([1.0, 2.0], 0.99) == 2.0
    assert percentile([1.0], 0.5) == 1.0


def test_the_same_rounds_are_also_judged_by_their_cost_and_their_slowest() -> None:
    ours, reference = (
        Figure(unit=MILLISECONDS, samples=(Sample(value=1, cpu_us=cpu_us, tail=tail),))
        for cpu_us, tail in ((300, 5), (100, 2))
    )
    bars = {"CPU per call": Bar(limit=1), "calls a second": Bar(limit=1), "p99 by p50": Bar(limit=4, of_ratio=False)}

    cost, slowest = lines_beside("row", ours, reference, "bare", bars)  # nobody has counted calls a second

    assert (cost.says, verdict(cost), slowest.says, verdict(slowest)) == (
        "row, CPU per call",
        MISSED,
        "row, p99 by p50",
        MISSED,
    )
