"""Weight-based merging histograms: buckets, refused arguments, exact answers, latest times."""

import re

import numpy as np
import pytest

from recency import Bank, NoAnswerError, WeightBasedMergingHistogram, keyed, loads, merge_all
from recency.decay import (
    Chordal,
    Custom,
    Exponential,
    FiniteExponential,
    NoDecay,
    PolyExponential,
    Polynomial,
    SlidingWindow,
    SuperExponential,
)
from states import change
from unit.test_merging import edges_by_hand, ticks_by_hand

DECAY = Polynomial(1.5)


def a_stream(size=5000, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "value": rng.integers(0, 1000, size),
        "at": rng.permutation(size),
        "weight": rng.integers(1, 100, size),
        "id": np.arange(size),
    }


def exact_sum(stream, decay, threshold=0, now=None):
    now = stream["at"].max() if now is None else now
    chosen = stream["value"] >= threshold
    return float((stream["weight"] * decay(now - stream["at"]))[chosen].sum())


@pytest.mark.parametrize(
    ("decay", "theorem"),
    [
        (SlidingWindow(10), "finite: .*Theorem 4.1.*DecayedSample"),
        (Chordal(10), "finite: .*Theorem 4.1.*DecayedSample"),
        (Custom(lambda x: (x < 5) / 2, kinds={"finite"}), "finite: .*Theorem 4.1"),
        (Exponential(half_life=10), "exponential: .*Theorem 4.2.*DecayedSample.*FiniteExponential"),
        (SuperExponential(1, 2), "super-exponential: .*Theorem 4.3.*DecayedSample"),
        (PolyExponential(1, 2), "super-exponential: .*Theorem 4.3.*DecayedSample"),
        (Custom(lambda x: 1 / (1 + x)), "do not include it"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_decays_without_a_small_summary_are_refused_with_the_reason(decay, theorem):
    with pytest.raises(ValueError, match="decay must be converging") as error:
        WeightBasedMergingHistogram(decay)
    assert re.search(theorem, str(error.value))
    assert type(decay).__name__ in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"decay": None}, TypeError),
        ({"decay": max}, TypeError),
        ({"relative_error": 1}, ValueError),
        ({"confidence": 0}, ValueError),
        ({"max_value": -1}, ValueError),
        ({"max_value": float("nan")}, ValueError),
        ({"spread": 0}, ValueError),
        ({"spread": "1"}, TypeError),
        ({"capacity": 0}, ValueError),
        ({"stream": -1}, ValueError),
        ({"unit": "h"}, ValueError),
    ],
    ids=str,
)
def test_bad_settings_are_refused(arguments, error):
    with pytest.raises(error, match=next(iter(arguments))):
        WeightBasedMergingHistogram(**{"decay": DECAY, **arguments})


def test_questions_out_of_range_are_refused_and_change_nothing():
    sketch = WeightBasedMergingHistogram(DECAY, max_value=100)
    sketch.update_many([0, 100], at=[1, 50])
    before = sketch.to_bytes()
    for ask in (sketch.query, sketch.count, sketch.relative_frequency):
        for bad in (-1, 100.5, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="must be"):
                ask(bad)
        with pytest.raises(TypeError):
            ask("1")
        with pytest.raises(ValueError, match="now must not be before the latest time seen"):
            ask(1, now=49)
    with pytest.raises(ValueError, match="lo must not be above hi"):
        sketch.range_sum(5, 4)
    with pytest.raises(ValueError, match=r"hi must be in \[0, 100\]"):
        sketch.range_sum(5, 101)
    with pytest.raises(ValueError, match="q must be"):
        sketch.quantile(1.5)
    with pytest.raises(ValueError, match="threshold must be"):
        sketch.heavy_hitters(1.5)
    with pytest.raises(ValueError, match=r"value must be in \[0, 100\], got 101"):
        sketch.update(101, at=60)
    assert sketch.to_bytes() == before
    assert sketch.latest == 50


def test_questions_to_an_empty_sketch():
    sketch = WeightBasedMergingHistogram(DECAY)
    sketch.update(5, at=3, weight=0)
    for nothing in (WeightBasedMergingHistogram(DECAY), sketch):
        assert nothing.query(1).exact
        assert float(nothing.query(1)) == float(nothing.count()) == 0
        assert float(nothing.range_sum(0, 9)) == 0
        assert nothing.heavy_hitters(0.1) == []
        assert nothing.buckets == []
        for ask in (lambda each: each.quantile(0.5), lambda each: each.relative_frequency(1)):
            with pytest.raises(NoAnswerError):
                ask(nothing)
    assert sketch.latest == 3


def test_everything_is_exact_while_nothing_was_discarded():
    stream = a_stream(1000)
    sketch = WeightBasedMergingHistogram(DECAY)
    sketch.update_many(**stream)
    weights = stream["weight"] * DECAY(999 - stream["at"])
    values = stream["value"]
    for threshold in (0, 1, 500, 998.5, 5000):
        answer = sketch.query(threshold)
        assert answer.exact
        assert answer.value == pytest.approx(weights[values >= threshold].sum(), rel=1e-12)
        count = DECAY(999 - stream["at"])[values >= threshold].sum()
        assert float(sketch.count(threshold)) == pytest.approx(count, rel=1e-12)
    inside = (values >= 100) & (values <= 200)
    assert float(sketch.range_sum(100, 200)) == pytest.approx(weights[inside].sum(), rel=1e-12)
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order]) / weights.sum()
    for q in (0.0, 0.01, 0.5, 0.9, 1.0):
        assert float(sketch.quantile(q)) == values[order][np.searchsorted(running, q - 1e-12)]
    heaviest, answer = sketch.heavy_hitters(0.05)[0]
    sums = np.bincount(values, weights)
    assert heaviest == sums.argmax()
    assert answer.value == pytest.approx(sums.max(), rel=1e-12)
    share = sketch.relative_frequency(heaviest)
    assert float(share) == pytest.approx(sums.max() / sums.sum(), rel=1e-12)


def test_equal_weights_make_counting_as_good_as_summing():
    stream = a_stream()
    stream["weight"] = 1
    sketch = WeightBasedMergingHistogram(DECAY, capacity=50)
    sketch.update_many(**stream)
    for threshold in (0, 500, 990):
        assert sketch.count(threshold) == sketch.query(threshold)
    assert not sketch.query().exact


@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_buckets_are_those_of_the_paper_tick_by_tick(spread):
    edges = edges_by_hand(DECAY, spread, 600)
    sketch = WeightBasedMergingHistogram(DECAY, spread=spread, capacity=3)
    for tick, buckets in ticks_by_hand(edges, 0, 600):
        sketch.update(tick % 7, at=tick)
        if tick % 37 == 0:
            assert sketch.buckets == [(first, min(last, tick)) for first, last in buckets]


def test_time_without_events_costs_nothing():
    """Five years in one step, in microseconds; there are at most 2β + 2 buckets."""
    hour = 3_600_000_000
    decay = Polynomial(1.5, scale=hour)
    sketch = WeightBasedMergingHistogram(decay, 0.1, unit="us")
    rng = np.random.default_rng(3)
    start = 1_500_000_000_000_000
    times = [start + rng.integers(0, 100 * hour, 20_000)]
    times.append(start + 24 * 365 * 5 * hour + rng.integers(0, 100 * hour, 20_000))
    values = rng.integers(0, 100, 20_000)
    for part in times:
        sketch.update_many(values, at=part)
    now = int(times[1].max())
    ages = now - np.concatenate(times)
    beta = np.ceil(np.log(1 / decay(int(ages.max()))) / np.log(1 + sketch.config.spread))
    assert len(sketch.buckets) <= 2 * beta + 2
    truth = float(decay(ages)[np.tile(values, 2) >= 90].sum())
    answer = sketch.query(90)
    assert abs(float(answer) - truth) <= 0.1 * truth
    assert answer.lower <= truth <= answer.upper


def test_without_decay_there_is_one_bucket():
    sketch = WeightBasedMergingHistogram(NoDecay(), capacity=20)
    stream = a_stream()
    sketch.update_many(**{**stream, "at": stream["at"] - 2500})
    assert len(sketch.buckets) == 1
    answer = sketch.query(now=10**15)
    assert answer.lower <= stream["weight"].sum() <= answer.upper


def test_merging_different_latest_times_equals_one_pass_with_ids():
    stream = a_stream(20_000)
    early = stream["at"] < 3000
    parts = []
    for chosen in (early, ~early):
        part = WeightBasedMergingHistogram(DECAY, capacity=20)
        part.update_many(**{name: column[chosen] for name, column in stream.items()})
        parts.append(part)
    whole = WeightBasedMergingHistogram(DECAY, capacity=20)
    whole.update_many(**stream)
    assert merge_all(parts) == merge_all(parts[::-1]) == whole
    assert len(whole.buckets) < len(parts[0].buckets) + len(parts[1].buckets)
    assert loads(whole.to_bytes()) == whole


@pytest.mark.parametrize("capacity", [3, 1000])
@pytest.mark.parametrize(
    "decay", [DECAY, NoDecay(), FiniteExponential(0.01, 0.2)], ids=["buckets", "one", "finite"]
)
def test_merging_many_keys_equals_merging_sketches(decay, capacity):
    if isinstance(decay, FiniteExponential):
        capacity = 5000
    parts = []
    for i, size in enumerate([300, 0, 40, 1, 900, 0, 7, 300]):
        part = WeightBasedMergingHistogram(decay, capacity=capacity, stream=i)
        stream = a_stream(size, seed=i) if size else {"value": [], "at": []}
        part.update_many(stream["value"], at=np.asarray(stream["at"]) * 3 + 50 * i)
        parts.append(part)
    into = np.array([2, 0, 2, 0, 3, 4, 1, 2])
    together = keyed.joined([part._keyed for part in parts])
    merged = together.merged(into, 5).split()
    for group, result in enumerate(merged):
        mine = [part for part, number in zip(parts, into, strict=True) if number == group]
        expected = merge_all(mine) if mine else parts[0].empty_like(stream=0)
        sketch = expected._with(result)
        if not sketch.is_empty:
            assert sketch.to_bytes() == expected.to_bytes()
            assert sketch.buckets == expected.buckets
        assert sketch.query(3) == expected.query(3)


def test_a_level_of_one_value_is_dropped_as_a_whole():
    """The bucket may have no element left, but the level has an edge."""
    sketch = WeightBasedMergingHistogram(DECAY, capacity=1, seed=4)
    sketch.update_many([5] * 64, at=0)
    assert len(sketch.buckets) == 1
    assert loads(sketch.to_bytes()) == sketch
    assert float(sketch.query(6)) == 0
    assert sketch.query(6).exact
    assert sketch.query(5).upper >= 64 * (1 - 1e-12)


@pytest.mark.parametrize("exponent", [40, 100, 1000])
def test_decays_that_underflow_lose_no_elements(exponent):
    sketch = WeightBasedMergingHistogram(Polynomial(exponent))
    sketch.update(5, at=0, weight=3)
    sketch.update(7, at=5000, weight=2)
    assert float(sketch.query()) == pytest.approx(2 + 3 * Polynomial(exponent)(5000))
    assert loads(sketch.to_bytes()) == sketch


def test_the_highest_quantile_is_the_largest_value_however_light():
    sketch = WeightBasedMergingHistogram(DECAY)
    sketch.update_many([1, 2], at=[0, 0], weight=[1e13, 1])
    assert float(sketch.quantile(1)) == 2
    assert float(sketch.quantile(1 - 1e-12)) == 1


def test_too_many_regions_are_refused():
    """They would be computed one by one, also for bytes with such a configuration."""
    with pytest.raises(ValueError, match="spread must be larger"):
        WeightBasedMergingHistogram(Polynomial(18), spread=0.01)


def test_the_guarantee_of_a_given_capacity():
    few = WeightBasedMergingHistogram(DECAY, relative_error=1e-6, capacity=10)
    assert few.guarantee > 0.5
    assert "guarantee" in repr(few)
    usual = WeightBasedMergingHistogram(DECAY, 0.1)
    again = WeightBasedMergingHistogram(DECAY, 0.2, capacity=usual.config.capacity)
    assert usual.guarantee == 0.1
    assert again.guarantee == pytest.approx(0.1, rel=0.02)
    with pytest.raises(ValueError, match="relative_error must be larger, got 1e-09"):
        WeightBasedMergingHistogram(DECAY, 1e-9)


class TestFiniteExponential:
    DECAY = FiniteExponential(rate=0.1, floor=0.1)  # ages 0 to 33

    def test_elements_that_still_count_are_all_kept(self):
        sketch = WeightBasedMergingHistogram(self.DECAY)
        stream = a_stream()
        sketch.update_many(**stream)
        for threshold in (0, 500):
            for now in (None, 5000, 5020, 6000):
                truth = exact_sum(stream, self.DECAY, threshold, now)
                answer = sketch.query(threshold, now)
                assert answer.exact
                assert answer.value == pytest.approx(truth, rel=1e-12, abs=0)
        assert sketch.guarantee == 0
        assert sketch.nbytes < 1000  # 34 elements

    def test_more_than_the_capacity_is_refused_and_changes_nothing(self):
        sketch = WeightBasedMergingHistogram(self.DECAY, capacity=10)
        sketch.update_many(range(8), at=range(8))
        sketch.update(8, at=8)
        before = sketch.to_bytes()
        with pytest.raises(ValueError, match="there would be 11, and capacity is 10"):
            sketch.update_many([1, 2], at=[9, 10])
        assert sketch.to_bytes() == before
        sketch.update(1, at=9)
        full = sketch.to_bytes()
        with pytest.raises(ValueError, match="there would be 11"):
            sketch.update(1, at=10)
        with pytest.raises(ValueError, match="there would be 11"):
            sketch.update(1, at=5)
        assert (sketch.to_bytes(), sketch.latest) == (full, 9)
        sketch.update(1, at=10, weight=0)  # what does not count needs no room
        sketch.update(1, at=-30)  # nor what counts no longer
        other = WeightBasedMergingHistogram(self.DECAY, capacity=10)
        other.update(3, at=12)
        mine, theirs = sketch.to_bytes(), other.to_bytes()
        for refused in (lambda: sketch.merge(other), lambda: merge_all([other, sketch])):
            with pytest.raises(ValueError, match="there would be 11, and capacity is 10"):
                refused()
            assert (sketch.to_bytes(), other.to_bytes()) == (mine, theirs)
        sketch.update_many([7] * 9, at=100)  # all others are gone
        assert float(sketch.count()) == 9

    def test_a_large_batch_of_which_few_rows_count_is_accepted(self):
        sketch = WeightBasedMergingHistogram(self.DECAY, capacity=100)
        sketch.update_many(1, at=np.arange(1_000_000))
        assert float(sketch.query()) == pytest.approx(self.DECAY(np.arange(34)).sum())

    def test_single_updates_are_refused_immediately(self):
        sketch = WeightBasedMergingHistogram(self.DECAY, capacity=5)
        for value in range(5):
            sketch.update(value, at=value)
        with pytest.raises(ValueError, match="there would be 6, and capacity is 5"):
            sketch.update(5, at=5)
        again = loads(sketch.to_bytes())
        for each in (sketch, again, sketch.copy()):
            assert float(each.count()) > 3
            with pytest.raises(ValueError, match="there would be 6, and capacity is 5"):
                each.update(5, at=5)
            for value in range(100):  # one goes as another comes
                each.update(value, at=34 + value * 7)
            assert each.latest == 34 + 99 * 7

    def test_banks_refuse_what_a_key_has_no_room_for(self):
        bank = Bank(WeightBasedMergingHistogram(self.DECAY, capacity=5))
        bank.update_many(["a", "b", "a", "c"], value=1, at=[1, 2, 3, 2])
        bank.update_many("a", value=[2, 3, 4], at=5)
        before = bank.to_bytes()
        for keys, at in [(["b", "a"], 6), (["d"] * 6, 3), (["c"] * 5, [2, 3, 4, 5, 6])]:
            with pytest.raises(ValueError, match="there would be 6, and capacity is 5"):
                bank.update_many(keys, value=1, at=at)
            assert bank.to_bytes() == before
        bank.update_many(["a"] * 5, value=1, at=60)
        assert [float(bank[key].count(now=60)) for key in "abc"] == [5, 0, 0]
        assert {key: sketch.to_bytes() for key, sketch in bank.items()} == bank.to_bytes()

    def test_the_capacity_does_not_count_expired_elements(self):
        sketch = WeightBasedMergingHistogram(self.DECAY, capacity=2)
        change(sketch, latest=0, index=2**63 - 2)
        sketch = loads(sketch.to_bytes())
        sketch.update_many([1, 2], at=3)
        before = sketch.to_bytes()
        with pytest.raises(ValueError, match="there would be 3"):
            sketch.update(1, at=3)
        assert sketch.to_bytes() == before
        sketch.update_many([1, 2], at=300)
        assert float(sketch.count()) == 2
