"""Decayed samples: both ways of keeping elements against plain definitions, and bad input."""

import math
import pickle
import struct
import zlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency import (
    CorruptSketchError,
    DecayedSample,
    Estimate,
    NoAnswerError,
    WeightBasedMergingHistogram,
    loads,
    merge_all,
)
from recency.core.sizing import (
    capacity_for_count,
    failure_per_copy,
    gamma_quantile,
    poisson_at_most,
    sum_interval,
    weighted_interval,
)
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
from states import body_of, least_of, once, weighed_of

ROWS = {
    "value": [1, 2, 2, 5, 9],
    "at": [10, 40, 20, 50, 45],
    "weight": [4, 1, 2.5, 8, 0],
    "id": ["a", "b", "c", "d", "e"],
}
DECAYS = [
    NoDecay(),
    SlidingWindow(25),
    Exponential(half_life=10),
    Polynomial(1.5),
    PolyExponential(1, 1.5, scale=10),
    SuperExponential(0.01, 1.5),
    Chordal(60),
    FiniteExponential(0.05, 0.2),
    Custom(lambda x: 1 / (1 + x)),
]


def decayed(decay, now, rows=ROWS):
    return np.array(rows["weight"]) * decay(now - np.array(rows["at"]))


def few(**settings):
    sketch = DecayedSample(**settings)
    sketch.update_many(**ROWS)
    return sketch


def many(size=30_000, seed=0, **settings):
    rng = np.random.default_rng(seed)
    sketch = DecayedSample(**settings)
    rows = {
        "value": rng.integers(0, 20, size),
        "at": rng.integers(0, size, size),
        "weight": rng.integers(0, 1000, size),
        "id": np.arange(size),
    }
    sketch.update_many(**rows)
    return sketch, rows


# --- few elements: exact ---


@pytest.mark.parametrize("decay", DECAYS, ids=lambda decay: type(decay).__name__)
def test_few_elements_are_answered_exactly_under_any_decay(decay):
    sketch = few()
    for now in (50, 53, 90):
        weights = decayed(decay, now)
        whole = math.fsum(weights)
        asked = {"decay": decay, "now": now}
        assert sketch.query(**asked) == Estimate(whole, whole, whole)
        large = np.array(ROWS["weight"]) > 2
        some = sketch.query(**asked, where=lambda values, weights: weights > 2)
        assert some == Estimate(*[math.fsum(weights[large])] * 3)
        assert sketch.correlated_sum(2, **asked).value == math.fsum(weights[1:4])
        alive = decay(now - np.array(ROWS["at"]))[:4]
        assert sketch.count(**asked).value == pytest.approx(alive.sum(), rel=1e-12)
        if whole:
            assert sketch.rank(2, **asked).value == pytest.approx(weights[:3].sum() / whole)
            assert sketch.mean(**asked).value == pytest.approx(whole / alive.sum())
            assert sketch.mean(**asked).exact


def test_quantiles_are_by_decayed_weight():
    sketch = few()
    assert sketch.median() == Estimate(5.0, 5.0, 5.0)  # weights 4, 3.5 and 8: 7.75 is reached at 5
    assert sketch.quantile(0.25).value == 1
    assert sketch.quantile(0.3).value == 2
    assert [sketch.quantile(q).value for q in (0, 1)] == [1, 5]
    assert sketch.quantile(0.3, Exponential(half_life=5)).value == 5


def test_frequent_values_are_listed_largest_first():
    sketch = few()
    assert [value for value, _ in sketch.frequent_items(0.2)] == [5, 1, 2]
    assert sketch.frequent_items(0.3) == [(5.0, Estimate(8.0, 8.0, 8.0))]
    assert [value for value, _ in sketch.frequent_items(4)] == [5, 1]
    assert sketch.frequent_items(100) == []
    assert DecayedSample().frequent_items(0.1) == []


@pytest.mark.parametrize("decay", DECAYS, ids=lambda decay: type(decay).__name__)
def test_few_elements_under_a_decay_of_the_constructor(decay):
    """Exact, except for elements below 2⁻³² of the largest weight, which are sampled."""
    sketch = few(decay=decay)
    for now in (50, 53, 90):
        truth = math.fsum(decayed(decay, now))
        answer = sketch.query(now=now)
        assert answer.lower <= truth <= answer.upper
        assert answer.upper - answer.lower <= 8 * 2.0**-28
        assert answer.value == pytest.approx(truth, abs=8 * 2.0**-29)


# --- many elements: the definitions, element by element ---


@given(st.integers(0, 10**6), st.sampled_from(DECAYS))
@settings(max_examples=40)
def test_the_decayed_sum_is_a_sum_over_windows(seed, decay):
    """Cormode, Tirthapura & Xu 2009, Lemma 4.4: Σ (g(c − t) − g(c − t + 1)) · V(t), by parts.

    V(t), the sum of the window that begins with t, is what the sketch says under a sliding window.
    """
    rng = np.random.default_rng(seed)
    sketch = DecayedSample(capacity=4, seed=seed)
    times = rng.integers(0, 40, 120)
    sketch.update_many(at=times, weight=rng.integers(1, 50, 120), id=np.arange(120))
    now = int(times.max()) + int(rng.integers(0, 5))
    values = decay(np.arange(now + 1))
    steps = np.append(values[:-1] - values[1:], values[-1])
    windows = [sampled_sum(sketch, SlidingWindow(age + 1), now) for age in range(now + 1)]
    assert sampled_sum(sketch, decay, now) == pytest.approx(float(steps @ windows), rel=1e-9)


def sampled_sum(sketch, decay, now):
    """Return the sum that sampled elements represent, without the bound of present ones."""
    (weighed,) = weighed_of(sketch, decay, now)
    return weighed.shares.sum()


class PlainFading:
    """Elements kept by expiry, by definition: each level keeps those that expire last."""

    def __init__(self, decay, capacity, bottom):
        self.decay, self.capacity, self.bottom = decay, capacity, bottom
        self.elements = set()

    def add(self, coin, value, weight, time):
        self.elements.add((coin, value, weight, time))

    def level(self, i, clock):
        """Expiries and elements kept at a level, and the expiry of the first that is not."""
        lasting = []
        for element in self.elements:
            coin, _, weight, time = element
            bound = float(Fraction(coin + 1, 2**53)) * 2.0**i
            if weight < bound:
                continue
            age = int(self.decay.first_age_below(np.array([weight]), np.array([bound]))[0])
            expiry = min(time + age, 2**63 - 1)
            if expiry > clock:
                lasting.append((expiry, element))
        lasting.sort(key=lambda pair: -pair[0])
        if len(lasting) <= self.capacity:
            return lasting, None
        edge = lasting[self.capacity][0]
        return [pair for pair in lasting if pair[0] > edge], edge


@given(st.integers(0, 10**6), st.sampled_from(DECAYS[1:]))
@settings(max_examples=30)
def test_fading_samples_are_those_of_the_definition(seed, decay):
    rng = np.random.default_rng(seed)
    sketch = DecayedSample(decay=decay, capacity=5, seed=seed)
    times, weights = rng.integers(0, 60, 60), rng.choice([1.0, 3.5, 70.0], 60)
    for part in np.array_split(np.arange(60), 4):
        sketch.update_many(0, at=times[part], weight=weights[part], id=part)
        sketch.query()
    recorder = DecayedSample(decay=NoDecay(), capacity=10**6, seed=seed)
    recorder.update_many(0, at=times, weight=weights, id=np.arange(60))
    heaviest = math.floor(math.log2(weights.max()))
    plain = PlainFading(decay, 5, heaviest - 32)
    for row in zip(*(column.tolist() for column in body_of(recorder).sample.columns), strict=True):
        plain.add(*row)
    sample, clock = body_of(sketch).sample, int(times.max())
    for i in range(plain.bottom, heaviest + 12):
        lasting, edge = plain.level(i, clock)
        mine = np.flatnonzero(sample.levels == i)
        kept = zip(*(column[mine].tolist() for column in sample.columns), strict=True)
        # Formulas may be off by a tick, in the last bit.
        assert abs(len(set(kept) ^ {element for _, element in lasting})) <= 1
        edges = sample.edges[sample.edge_levels == i].tolist()
        assert (edge is None) == (not edges)
        assert edge is None or abs(edge - edges[0]) <= 1


def test_late_and_repeated_elements():
    sketch, rows = many(5000, decay=Exponential(half_life=500), capacity=40)
    again = DecayedSample(decay=Exponential(half_life=500), capacity=40)
    order = np.random.default_rng(3).permutation(np.repeat(np.arange(5000), 2))
    for part in np.array_split(order, 7):
        again.update_many(**{name: column[part] for name, column in rows.items()})
    assert again == sketch
    assert again.to_bytes() == sketch.to_bytes()


@pytest.mark.parametrize("decay", [None, Exponential(half_life=500)])
def test_a_heavier_element_may_be_in_any_part(decay):
    """The lowest level that is kept depends on the largest weight, whenever that arrives."""
    parts = [DecayedSample(decay=decay, capacity=20) for _ in range(4)]
    whole = DecayedSample(decay=decay, capacity=20)
    for i, part in enumerate(parts):
        rows = {"at": np.arange(200) + i, "weight": np.full(200, 10.0 ** (4 * i)), "id": i}
        part.update_many(**rows)
        whole.update_many(**rows)
    assert merge_all(parts) == merge_all(parts[::-1]) == whole
    assert loads(whole.to_bytes()) == whole


def test_an_element_is_the_whole_tuple():
    sketch = DecayedSample()
    same = {"value": 1, "at": 5, "weight": 2, "id": "x"}
    for _ in range(3):
        sketch.update(**same)
    for name, other in [
        ("value", 2),
        ("at", 6),
        ("weight", 3),
        ("id", "y"),
        ("id", b"x"),
        ("id", None),
    ]:
        sketch.update(**{**same, name: other})
    sketch.update(**{**same, "id": 0})
    assert sketch.count().value == 8
    assert sketch.query().value == 17


def test_hashes_of_small_integers_do_not_collide():
    """Hashes made of sums of multiples of their bits would collide, for a million pairs."""
    value, weight = (column.ravel() for column in np.meshgrid(np.arange(1000), np.arange(1, 1001)))
    sketch = DecayedSample(capacity=10**6)
    sketch.update_many(value, at=0, weight=weight)
    assert sketch.count() == Estimate(1e6, 1e6, 1e6)


def test_elements_take_few_bytes():
    for decay in (None, Exponential(half_life=2000)):
        sketch, _ = many(100_000, decay=decay)
        sketch.query()
        kept = once(sketch).times.size
        assert kept >= sketch.config.capacity
        assert sketch.nbytes <= 24 * kept


def test_expired_elements_are_dropped():
    sketch = DecayedSample(window=100)
    sketch.update_many(at=np.arange(10_000), id=np.arange(10_000))
    assert sketch.query() == Estimate(100.0, 100.0, 100.0)
    assert once(sketch).times.size == 100
    fading = DecayedSample(decay=SlidingWindow(100))
    fading.update_many(at=np.arange(10_000), id=np.arange(10_000))
    fading.query()
    assert once(fading).times.size == 100
    assert fading.query(now=9_999 + 99).value == 1
    assert fading.query(now=9_999 + 100) == Estimate(0.0, 0.0, 0.0)


def test_a_heavier_element_may_come_after_a_question():
    """Its weight raises the lowest level; edges of levels below must not count for others."""
    for weight in (2.0**20, 2.0**60):
        rows = [
            {"at": np.zeros(20_000, int), "id": np.arange(20_000), "weight": w} for w in (1, weight)
        ]
        asked, whole = (DecayedSample(decay=Exponential(half_life=100)) for _ in range(2))
        for row in rows:
            asked.update_many(**row)
            asked.query()
            whole.update_many(**row)
        assert asked == whole
        assert asked.query().lower <= 20_000 * (weight + 1) <= asked.query().upper


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_elements_of_one_highest_level_may_outnumber_the_capacity(capacity):
    """Each level below keeps different ones of them."""
    rng = np.random.default_rng(capacity)
    for decay in (Polynomial(1), Chordal(3000), SuperExponential(1e-6, 2)):
        for seed in range(10):
            sketch = DecayedSample(decay=decay, capacity=capacity, seed=seed)
            times, weights = rng.integers(0, 2000, 3000), rng.integers(1, 100, 3000)
            sketch.update_many(at=times, weight=weights, id=np.arange(3000))
            assert loads(sketch.to_bytes()) == sketch


@pytest.mark.parametrize("decay", [None, NoDecay(), Exponential(half_life=5), Chordal(9)])
def test_times_at_the_end_of_int64(decay):
    last = 2**63 - 1
    for late in (0, 2):
        sketch = DecayedSample(decay=decay)
        sketch.update_many(at=[last - late] * 5, id=range(5))
        truth = 5 * (decay or NoDecay())(late)
        assert sketch.query(now=last).value == pytest.approx(truth, rel=1e-6)
        assert loads(sketch.to_bytes()) == sketch


@pytest.mark.parametrize("sampler", ["uniform", "range"])
@pytest.mark.parametrize("decay", [NoDecay(), Polynomial(0.01), Exponential(half_life=2**60)])
def test_ages_larger_than_any_time(sampler, decay):
    """From the first tick to the last but one, no age counts as never."""
    together = DecayedSample(sampler=sampler, decay=decay)
    together.update_many([1, 2], at=np.array([1 - 2**63, 2**63 - 2]), weight=1000)
    apart = DecayedSample(sampler=sampler, decay=decay)
    apart.update(1, at=1 - 2**63, weight=1000)
    apart.query()
    apart.update(2, at=2**63 - 2, weight=1000)
    assert together == apart == DecayedSample.from_bytes(apart.to_bytes())
    truth = 1000 + 1000 * decay(2.0**64)
    assert together.query().value == pytest.approx(truth, abs=1)


def test_ages_beyond_2_to_53():
    sketch = DecayedSample()
    sketch.update(at=0)
    assert sketch.query(SlidingWindow(2**60), now=2**60 - 1).value == 1
    assert sketch.query(SlidingWindow(2**60), now=2**60).value == 0
    sketch.update(at=-(2**63) + 1)
    assert sketch.query(now=2**63 - 1).value == 2


def test_counts_with_weights_that_are_far_apart():
    nothing = DecayedSample()
    nothing.update(at=1, weight=0)
    assert nothing.count() == nothing.query() == Estimate(0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="decayed weight above 0"):
        nothing.mean()
    sketch = DecayedSample(capacity=20)
    sketch.update_many(7.0, at=range(1000), weight=[2.0**900] * 500 + [5e-324] * 500)
    for answer in (sketch.count(), sketch.mean()):
        assert answer.lower <= answer.value <= answer.upper
        assert math.isfinite(answer.value)
    assert sketch.count().upper >= 1000
    assert [value for value, _ in sketch.frequent_items(0.1)] == [7.0]


def test_values_that_just_reach_the_threshold_are_frequent():
    sketch = DecayedSample()
    sketch.update_many(7.0, at=range(10), weight=[0.1] * 10)
    assert sketch.query().value == 1
    assert sketch.frequent_items(1) == [(7.0, Estimate(1.0, 1.0, 1.0))]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_level_that_answers_may_be_empty(copies):
    refused = 0
    for seed in range(60):
        sketch = DecayedSample(capacity=2, decay=NoDecay(), seed=seed, copies=copies)
        sketch.update_many(np.arange(100.0), at=5)
        if not any(copy.shares.size for copy in weighed_of(sketch)):
            with pytest.raises(ValueError, match="larger capacity"):
                sketch.median()
            refused += 1
        else:
            assert 0 <= sketch.median().value <= 99
    assert 0 < refused < 30 if copies == 1 else refused == 0


# --- sizing ---


def test_nested_levels_need_twice_the_capacity():
    for error, doubt in [(0.05, 0.05), (0.2, 0.1), (0.5, 0.3)]:
        plain, nested = (capacity_for_count(error, doubt, each) for each in (False, True))
        assert 1.7 * plain <= nested <= 2.05 * plain
    assert DecayedSample().config.capacity == capacity_for_count(0.05, 1 - 0.95)
    fading = DecayedSample(decay=Polynomial(1))
    assert fading.config.capacity == capacity_for_count(0.05, 1 - 0.95, nested=True)
    assert fading.guarantee == DecayedSample().guarantee == 0.05
    assert DecayedSample(capacity=400).guarantee > 0.09


@pytest.mark.parametrize("copies", [1, 3, 5, 9])
def test_the_failure_probability_of_copies_is_that_of_a_majority(copies):
    each = Fraction(failure_per_copy(0.05, copies)).limit_denominator(10**12)
    fails = sum(
        math.comb(copies, k) * each**k * (1 - each) ** (copies - k)
        for k in range((copies + 1) // 2, copies + 1)
    )
    assert float(fails) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("shape", [1, 2, 5, 40, 300, 2500, 22_287])
@pytest.mark.parametrize("tail", [5e-13, 1e-6, 0.02, 0.5, 0.7])
def test_gamma_quantiles(shape, tail):
    """P[Gamma(n) > x] = P[Poisson(x) < n]."""
    x = gamma_quantile(float(shape), tail, upper=True)
    assert poisson_at_most(np.array([shape - 1.0]), np.array([x]))[0] == pytest.approx(tail)
    x = gamma_quantile(float(shape), tail, upper=False)
    if tail > 1e-9:  # what the other side can tell
        below = 1 - poisson_at_most(np.array([shape - 1.0]), np.array([x]))[0]
        assert below == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize("shape", [1.3, 2.5, 7.75, 40.2])
@pytest.mark.parametrize("tail", [1e-6, 0.02, 0.5])
def test_gamma_quantiles_of_fractional_shapes(shape, tail):
    """By integrating the density."""
    for upper in (True, False):
        x = gamma_quantile(shape, tail, upper)
        grid = np.linspace(x, shape + 60 * math.sqrt(shape) + 60, 400_001)
        if not upper:
            grid = np.linspace(1e-12, x, 400_001)
        density = np.exp((shape - 1) * np.log(grid) - grid - math.lgamma(shape))
        assert np.trapezoid(density, grid) == pytest.approx(tail, rel=1e-3)


def test_intervals_at_very_high_confidence():
    for n in (0, 1, 40, 4000, 22_287, 429_541):
        for confidence in (0.5, 1 - 1e-6, 1 - 1e-11, 1 - 1.1e-12):
            lower, upper = sum_interval(n, n, confidence)
            assert lower <= n <= upper <= n + 12 * math.sqrt(n) + 40
    assert sum_interval(0, 0, 1 - 1e-11)[1] == pytest.approx(-math.log(0.7e-11 / 2), rel=1e-4)
    sketch = DecayedSample(0.2, 1 - 1.1e-12)
    sketch.update_many(at=np.arange(20_000))
    assert sketch.query().lower <= 20_000 <= sketch.query().upper


def test_weighted_intervals_cover():
    rng = np.random.default_rng(4)
    sizes = np.array([0.05, 0.3, 1.0])
    means = np.array([40.0, 12.0, 6.0])
    truth, misses = float(sizes @ means), 0
    for _ in range(4000):
        n = rng.poisson(means)
        lower, upper = weighted_interval(float(sizes @ n), float(sizes**2 @ n), 0.1)
        misses += not lower <= truth <= upper
    assert misses <= 0.1 * 4000 + 3 * math.sqrt(0.09 * 4000)
    assert weighted_interval(1e-200, 0.0, 0.1)[0] == 0


# --- bad input ---


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DecayedSample(0), ValueError, "relative_error"),
        (lambda: DecayedSample(confidence=1.5), ValueError, "confidence"),
        (lambda: DecayedSample(decay="Exponential"), TypeError, "decay must be a Decay"),
        (lambda: DecayedSample(decay=0.5), TypeError, "decay must be a Decay"),
        (lambda: DecayedSample(decay=Exponential(1), window=9), ValueError, "beyond the window"),
        (lambda: DecayedSample(decay=Chordal(9.5), window=9), ValueError, "beyond the window of 9"),
        (lambda: DecayedSample(window=0), ValueError, "window"),
        (lambda: DecayedSample(window="1 day"), TypeError, "window"),
        (lambda: DecayedSample(sampler="other"), ValueError, "sampler"),
        (lambda: DecayedSample(copies=2), ValueError, "copies must be odd"),
        (lambda: DecayedSample(copies=0), ValueError, "copies"),
        (lambda: DecayedSample(copies=1.0), TypeError, "copies"),
        (lambda: DecayedSample(capacity=0), ValueError, "capacity"),
        (lambda: few().query("1 hour"), TypeError, "decay must be a Decay"),
        (lambda: few(window=60).query(Exponential(1)), ValueError, "beyond the window of 60"),
        (lambda: few(window=60).query(NoDecay()), ValueError, "beyond the window of 60"),
        (lambda: few(window=60).query(SlidingWindow(61)), ValueError, "beyond the window of 60"),
        (lambda: few(decay=Chordal(9)).query(Chordal(8)), ValueError, "decay must be left out"),
        (lambda: few().query(now=49), ValueError, "now must not be before"),
        (lambda: few().query(now=1.5), TypeError, "now"),
        (lambda: few().query(where=lambda v, w: v), TypeError, "where must return booleans"),
        (lambda: few().query(where=lambda v, w: v[:1] > 0), ValueError, "one for each of 4"),
        (lambda: few().query(where=lambda v, w: True), ValueError, "one for each of 4"),
        (lambda: few().query(where=lambda v: v > 0), TypeError, "positional"),
        (lambda: few().selectivity(lambda v, w: v * 1.0), TypeError, "where must return booleans"),
        (lambda: few().rank("1"), TypeError, "value"),
        (lambda: few().quantile(1.5), ValueError, "q must be"),
        (lambda: few().quantile(math.nan), ValueError, "q"),
        (lambda: few().correlated_sum(math.inf), ValueError, "threshold"),
        (lambda: few().frequent_items(0), ValueError, "threshold"),
        (lambda: few().frequent_items(1.5), ValueError, "threshold"),
        (lambda: few().frequent_items(True), TypeError, "threshold"),
        (lambda: DecayedSample().median(), ValueError, "needs elements"),
        (lambda: DecayedSample().mean(), ValueError, "needs elements"),
        (lambda: DecayedSample().rank(1), ValueError, "needs elements"),
        (lambda: few().median(SlidingWindow(1), 99), ValueError, "decayed weight above 0"),
        (lambda: few().mean(SlidingWindow(1), 99), ValueError, "decayed weight above 0"),
        (lambda: few().rank(1, SlidingWindow(1), 99), ValueError, "decayed weight above 0"),
    ],
)
def test_bad_settings_and_questions_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_decay_that_raises_loses_no_rows():
    """Rows are buffered until a call absorbs them, also if a question raised before."""
    fails = []

    def fn(ages):
        if fails:
            raise ArithmeticError("not now")
        return 1 / (1 + ages)

    def fed():
        sketch = DecayedSample(decay=Custom(fn), capacity=10)
        sketch.update_many(at=times[:1500], id=times[:1500])
        sketch.query()
        sketch.update_many(at=times[1500:], id=times[1500:])
        sketch.update(at=3000, id=3000)
        return sketch

    times = np.arange(3000)
    calm, again = fed().copy(), fed()
    fails.append(True)
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            again.query()
    fails.clear()
    assert again == calm
    assert again.query() == calm.query()


def test_a_sketch_with_a_custom_decay_has_no_bytes():
    decay = Custom(DECAYS[-1].fn)
    sketch, other = few(decay=decay), few(decay=decay)
    assert sketch == other
    assert "not for bytes" in repr(sketch)
    assert sketch.copy().merge(other) == sketch
    assert sketch.query().value == pytest.approx(math.fsum(decayed(decay, 50)), rel=1e-8)
    for ask in (sketch.to_bytes, lambda: sketch.nbytes, lambda: pickle.dumps(sketch)):
        with pytest.raises(ValueError, match="cannot encode a Custom decay"):
            ask()
    assert sketch != few(decay=Custom(lambda x: 1 / (1 + x)))


@pytest.mark.parametrize("scale", [1e-310, 0.0, -1.0, math.inf, math.nan, 1e300])
def test_hostile_decays_in_bytes(scale):
    sketch = few(decay=Polynomial(1.0, scale=2.0))
    frame = sketch.to_bytes()
    begin = frame.index(b"Polynomial") + len("Polynomial") + 1 + 8 + 1
    assert frame[begin : begin + 8] == struct.pack("<d", 2.0)
    frame = frame[:begin] + struct.pack("<d", scale) + frame[begin + 8 : -4]
    frame += struct.pack("<I", zlib.crc32(frame))
    try:
        changed = loads(frame)
    except CorruptSketchError:
        return
    assert changed.config.decay.scale == scale
    assert changed.query().lower <= changed.query().upper


def test_repr():
    assert repr(few(window=60)).startswith(
        "DecayedSample(guarantee=0.05, window=60 ticks, 4 elements kept, latest=50, "
    )
    assert "empty" in repr(DecayedSample(decay=Chordal(5)))
    assert DecayedSample(unit="s").config.window is None
    assert DecayedSample(window="1 day", unit="s").config.window == 86_400


@pytest.mark.parametrize("floor", [0.5, 0.25, 1 / 3, 0.07])
def test_elements_count_up_to_the_last_tick_before_a_decay_jumps_to_zero(floor):
    """By formula, the age at which 2^(−rate·age) reaches the floor may be one tick too early."""
    for rate in range(1, 1000, 13):
        for decay in (FiniteExponential(1 / rate, floor), SlidingWindow(rate, scale=floor * 9)):
            sketch = DecayedSample(decay=decay)
            sketch.update_many(np.arange(10.0), at=0, weight=8, id=np.arange(10))
            ages = np.unique([max(decay.reach - 1, 0), decay.reach])
            for age in ages.tolist():
                answer, truth = sketch.query(now=age), 80 * decay(age)
                assert float(answer) == pytest.approx(truth, rel=1e-12)
                assert answer.lower <= truth * (1 + 1e-12) <= answer.upper * (1 + 1e-9) + 1e-300


def test_an_exponential_decay_answers_after_any_time_without_events():
    sketch = DecayedSample(decay=Exponential(half_life=10))
    sketch.update_many(np.arange(1000.0) % 7, at=np.arange(1000), id=np.arange(1000))
    then = sketch.query()
    for idle in (450, 600, 5000):
        later = sketch.query(now=999 + idle)
        assert float(later) == pytest.approx(float(then) * 2.0 ** (-idle / 10), rel=1e-9)
        assert later.lower <= float(later) <= later.upper
        assert sketch.median(now=999 + idle) == sketch.median()
        assert sketch.rank(3, now=999 + idle) == sketch.rank(3)


def test_an_error_says_that_all_elements_decayed():
    sketch = DecayedSample(decay=PolyExponential(1, 2, scale=4))
    sketch.update_many(np.arange(1000.0), at=np.arange(1000), id=np.arange(1000))
    with pytest.raises(NoAnswerError, match="decayed below 2⁻³² of the largest weight"):
        sketch.median(now=3000)


@pytest.mark.parametrize("decay", [Polynomial(0.1), Exponential(half_life=2**60), NoDecay()])
@pytest.mark.parametrize(
    ("first", "now"), [(-(2**63) + 1, 2**63 - 1), (0, 2**62 + 5), (-5, 2**62 - 9)]
)
def test_ages_of_half_the_range_of_times_and_more(decay, first, now):
    size, missed = 3000, 0
    truth = size * decay(float(now - first))
    for seed in range(20):
        sketch = DecayedSample(decay=decay, capacity=200, seed=seed)
        sketch.update_many(np.arange(float(size)), at=first, id=np.arange(size))
        answer = sketch.query(now=now)
        missed += not answer.lower <= truth <= answer.upper
    assert missed <= 5  # P[Binomial(20, 0.05) > 5] < 4e-4


def test_a_quantile_of_copies_is_a_value_of_the_stream():
    values = np.arange(50.0) * 3 + 1
    for seed in range(40):
        sketch = DecayedSample(copies=3, capacity=1, seed=seed)
        sketch.update_many(values, at=np.zeros(50, dtype=int), id=np.arange(50))
        try:
            answers = [float(sketch.quantile(q)) for q in (0.1, 0.5, 0.9)]
        except NoAnswerError:
            continue
        assert set(answers) <= set(values.tolist())


def test_an_update_that_a_decay_refuses_changes_no_tally():
    """Neither the latest time nor the extreme weights change, for single and for many rows."""
    broken = False

    def fn(age):
        if broken:
            raise RuntimeError("no more")
        return 1 / (1 + age)

    for cls in (DecayedSample, WeightBasedMergingHistogram):
        broken = False
        kinds = {"converging"}
        sketch = cls(decay=Custom(fn, kinds=kinds, scale=50.0))
        rows = np.arange(400_000)
        sketch.update_many(rows * 1.0, at=rows, id=rows)
        before = sketch.query(), sketch.latest, least_of(sketch)
        broken = True
        with pytest.raises(RuntimeError):
            sketch.update_many(rows * 1.0, at=rows + 10**6, weight=1e-9, id=rows)
        assert sketch.latest == before[1]
        broken = False
        assert (sketch.query(), sketch.latest, least_of(sketch)) == before


def test_buffered_rows_survive_a_decay_that_raises_once():
    broken = False

    def fn(age):
        if broken:
            raise RuntimeError("not now")
        return 1 / (1 + age)

    sketch = WeightBasedMergingHistogram(Custom(fn, kinds={"converging"}), capacity=10**6)
    sketch.update_many(1, at=np.zeros(262_143, dtype=int))
    for _ in range(2):
        sketch.update(5.0, at=10**6, weight=1000.0)
    broken = True
    with pytest.raises(RuntimeError):
        sketch.query()
    broken = False
    assert float(sketch.query(5)) == 2000


def test_a_refused_first_update_leaves_an_empty_sketch():
    broken = True

    def fn(age):
        if broken and age.size < 2000:  # it was checked at more ages
            raise RuntimeError("not now")
        return 1 / (1 + age)

    sketch = DecayedSample(decay=Custom(fn))
    rows = np.arange(300_000)
    with pytest.raises(RuntimeError):
        sketch.update_many(rows * 1.0, at=rows, id=rows)
    assert sketch.is_empty
    assert sketch == sketch.copy()
    assert "empty" in repr(sketch)


def test_shares_lie_within_their_own_interval():
    weights = np.concatenate([np.ones(100), [8.702492039700847e19, 286817209087.55536]])
    values = np.append(np.ones(101), 0.0)
    sketch = DecayedSample(0.3, capacity=20)
    sketch.update_many(values, at=0, weight=weights, id=np.arange(102))
    answer = sketch.selectivity(lambda values, _: values == 1)
    assert answer.lower <= answer.value <= answer.upper
