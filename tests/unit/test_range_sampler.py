"""``DecayedSample(sampler="range")`` against the paper's definitions, integer by integer.

Cormode, Tirthapura & Xu 2009 (*Time-Decaying Sketches*), §3.2: an element of decayed weight f is at
level i iff one of its first f integers has a hash below ⌊p/2ⁱ⌋. It represents the number of these
integers, times p/⌊p/2ⁱ⌋.
"""

import math

import numpy as np
import pytest

from recency import DecayedSample
from recency.core.range_sampling import PRIME
from recency.core.samplers import SAMPLERS, progressions
from recency.decay import Chordal, Exponential, NoDecay, Polynomial, SlidingWindow
from states import body_of, once, weighed_of

SIZE = 400


def stream(seed, most=60):
    rng = np.random.default_rng(seed)
    return {
        "value": rng.integers(0, 20, SIZE),
        "at": rng.integers(0, 90, SIZE),
        "weight": rng.integers(0, most, SIZE),
        "id": np.arange(SIZE),
    }


def elements(columns, seed):
    """Hashes of the integers, weight and time of each element, by its coin."""
    everything = DecayedSample(sampler="range", capacity=10**6, seed=seed)
    everything.update_many(**columns)
    everything.query()
    coins, _, weights = body_of(everything).sample.columns
    starts, steps = progressions(coins)
    return {
        int(coin): ([(int(u) + j * int(a)) % PRIME for j in range(int(w))], int(w), int(t))
        for coin, u, a, w, t in zip(
            coins, starts, steps, weights, body_of(everything).sample.times, strict=True
        )
    }


def hits(hashes, level):
    return sum(each < PRIME >> level for each in hashes)


@pytest.mark.parametrize("seed", range(5))
def test_levels_and_what_elements_represent(seed):
    known = elements(stream(seed), seed)
    sampler = SAMPLERS["range"]
    coins = np.array(list(known), dtype=np.uint64)
    weights = np.array([float(w) for _, w, _ in known.values()])
    levels = sampler.levels(weights, coins)
    for (hashes, _, _), level in zip(known.values(), levels.tolist(), strict=True):
        assert hits(hashes, level) > 0
        assert hits(hashes, level + 1) == 0
    for level in (0, 1, 3, 6):
        amounts, units = sampler.standing(weights, coins, np.full(coins.size, level))
        scale = PRIME / (PRIME >> level)
        for (hashes, _, _), amount, unit in zip(known.values(), amounts, units, strict=True):
            assert amount == pytest.approx(hits(hashes, level) * scale, rel=1e-12)
            assert unit == (scale if level else 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "decay", [NoDecay(), SlidingWindow(30), Exponential(half_life=9), Polynomial(1.2, scale=10)]
)
def test_a_decay_of_the_question(seed, decay):
    """By windows: element e counts with the level of the window that begins with it."""
    sketch = DecayedSample(sampler="range", capacity=6, seed=seed)
    columns = stream(seed)
    sketch.update_many(**columns)
    known = elements(columns, seed)
    now = int(columns["at"].max()) + 3
    edges = {}  # per level, the time of the seventh most recent element of that level alone
    for level in range(30):
        own = sorted(
            (
                t
                for hashes, _, t in known.values()
                if hits(hashes, level) and not hits(hashes, level + 1)
            ),
            reverse=True,
        )
        if len(own) > 6:
            edges[level] = own[6]
    expected = []
    for hashes, w, t in known.values():
        blind = [level for level, edge in edges.items() if edge >= t]
        level = max(blind) + 1 if blind else 0
        expected.append(
            decay(now - t) * (hits(hashes, level) * PRIME / (PRIME >> level) if level else w)
        )
    # What is present is certain, and may say more.
    assert sum(expected) == pytest.approx(sampled(sketch, decay, now), rel=1e-9)


def sampled(sketch, decay, now):
    (weighed,) = weighed_of(sketch, decay, now)
    return math.fsum(weighed.shares)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "decay", [SlidingWindow(30), Exponential(half_life=9), Chordal(50), Polynomial(1.2, scale=10)]
)
def test_a_decay_of_the_constructor(seed, decay):
    """Each level has the elements that expire last; expiries are found by testing every tick."""
    capacity = 12
    sketch = DecayedSample(sampler="range", decay=decay, capacity=capacity, seed=seed)
    columns = stream(seed)
    sketch.update_many(**columns)
    sketch.query()
    known = elements(columns, seed)
    clock = int(columns["at"].max())

    ages = np.arange(3000)
    left = {coin: decay.integral(np.full(3000, w), ages) for coin, (_, w, _) in known.items()}

    def expiry(coin, level):
        """The first time at which none of the first ⌊w·g⌋ integers is sampled; at most 3 000."""
        hashes, _, t = known[coin]
        first = next((j for j, each in enumerate(hashes) if each < PRIME >> level), len(hashes))
        none = left[coin] <= first
        return t + (int(np.argmax(none)) if none.any() else 3000)

    for level in range(12):
        expiries = {coin: expiry(coin, level) for coin in known}
        alive = {coin: each for coin, each in expiries.items() if each > clock}
        edge = sorted(alive.values(), reverse=True)[capacity] if len(alive) > capacity else clock
        expected = {coin: each for coin, each in alive.items() if each > edge}
        sample = body_of(sketch).sample
        rows = sample.levels == level
        found = dict(
            zip(
                sample.columns[0][rows].tolist(),
                sample.times[rows].tolist(),
                strict=True,
            )
        )
        assert found == expected, level
    for now in (clock, clock + 4, clock + 20):
        answer = sketch.query(now=now)
        truth = sum(int(decay.integral(w, now - t)) for _, w, t in known.values())
        assert answer.lower <= answer.value <= answer.upper
        if answer.exact:
            assert answer.value == truth


def test_one_element_is_answered_exactly():
    for decay in (None, Exponential(half_life=10)):
        sketch = DecayedSample(sampler="range", decay=decay)
        sketch.update(3, at=5, weight=2**20)
        assert sketch.query(now=5).value == 2**20
        sketch.update(3, at=5, weight=7)
        assert sketch.query(now=5).value == 2**20 + 7
        assert sketch.query(now=5).exact
    assert sketch.query(now=15).value == 2**19 + 3  # ⌊7/2⌋
    assert sketch.query(now=10**6).value == 0


def test_weights_are_integers_of_limited_size():
    sketch = DecayedSample(sampler="range")
    with pytest.raises(ValueError, match=r"weight must be in \[0, 1048576\], got 1048577"):
        sketch.update(at=1, weight=2**20 + 1)
    with pytest.raises(TypeError, match="weight must be"):
        sketch.update(at=1, weight=0.5)
    assert sketch.is_empty


@pytest.mark.parametrize("decay", [None, SlidingWindow(100)])
def test_the_highest_level_may_overflow(decay):
    """Two elements have an integer whose hash is 0, and the capacity is one."""
    sketch = DecayedSample(sampler="range", capacity=1, decay=decay)
    sketch.update_many(0, at=[5, 5], weight=2**20, id=[2305539, 12886595])
    assert (once(sketch).levels[:1] == 42).all()
    assert sketch.query().upper >= 2**21
    assert DecayedSample.from_bytes(sketch.to_bytes()) == sketch
