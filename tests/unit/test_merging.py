"""Buckets at every tick, against the algorithm of the paper run tick by tick."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from recency.core.time_buckets import Regions, regions_of
from recency.decay import Custom, NoDecay, Polynomial


def edges_by_hand(decay, spread, most):
    """b_i: the largest x with (1 + ε) f(x − 1) ≥ f(b_{i−1})."""
    edges = [0]
    values = decay.at(np.arange(4 * most))
    while edges[-1] <= most:
        x = edges[-1]
        while x < values.size and (1 + spread) * values[x] >= values[edges[-1]]:
            x += 1
        edges.append(x)
    return edges


def ticks_by_hand(edges, start, end):
    """Cormode, Tirthapura & Xu 2009, Fig. 3, testing every region at every tick.

    Every new bucket has b_1 ticks, and the union of two buckets ends with the newer one.
    """
    buckets = []  # (first, last), oldest first
    for tick in range(start, end):
        if tick % edges[1] == 0:
            buckets.append((tick, tick + edges[1] - 1))
        merged = True
        while merged:
            merged = False
            for i in range(len(buckets) - 1):
                older, newer = buckets[i], buckets[i + 1]
                least, most = tick - newer[1], tick - older[0]
                if any(b <= least and most < e for b, e in pairwise(edges[1:])):
                    buckets[i : i + 2] = [(older[0], newer[1])]
                    merged = True
                    break
        yield tick, buckets


@pytest.mark.parametrize(
    "decay",
    [
        Polynomial(1.5),
        Polynomial(1.5, scale=7),
        Polynomial(0.5),
        Polynomial(3),
        Polynomial(1, scale=40),
    ],
    ids=["1.5", "1.5/7", "0.5", "3", "1/40"],
)
@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0])
def test_buckets_are_those_of_the_paper(decay, spread):
    size = 400
    edges = edges_by_hand(decay, spread, size)
    regions = regions_of(decay, spread)
    start = 0
    for tick, buckets in ticks_by_hand(edges, start, size):
        times = np.arange(start, tick + 1)
        first, last = regions.buckets(times, tick)
        expected = [bucket for bucket in buckets for _ in range(bucket[0], bucket[1] + 1)]
        got = list(zip(first.tolist(), last.tolist(), strict=True))
        assert got == expected[: times.size], tick
        assert regions.grid(start, tick).tolist() == [begin for begin, _ in buckets]


@pytest.mark.parametrize("clock", [0, 10**6, 10**15, -(10**15)])
def test_there_are_at_most_two_buckets_per_region(clock):
    decay, spread = Polynomial(1.5), 0.1
    regions = regions_of(decay, spread)
    ages = np.unique(np.concatenate([np.arange(5000), np.geomspace(1, 10**9, 20_000).astype(int)]))
    times = clock - ages
    first, last = regions.buckets(times, clock)
    assert ((first <= times) & (times <= last)).all()
    count = np.unique(first).size
    beta = np.log(decay(0) / decay(int(ages.max()))) / np.log(1 + spread)
    assert count <= 2 * np.ceil(beta) + 2
    # Elements of a bucket are alike, and remain so.
    for later in (0, 7, 1000, 10**7):
        newest = np.maximum(clock + later - np.minimum(last, clock), 0)
        ratio = decay.at(newest) / decay.at(clock + later - first)
        assert (ratio <= 1 + spread + 1e-9).all()


def test_a_later_clock_only_merges_buckets():
    """The bucket of a time at a later clock is that of any other time of its bucket."""
    rng = np.random.default_rng(1)
    regions = regions_of(Polynomial(1.5, scale=3), 0.2)
    times = np.sort(rng.integers(-10_000, 10_000, 500))
    clock = int(times.max())
    first, _ = regions.buckets(times, clock)
    for later in sorted(rng.integers(clock, 10**6, 50).tolist()):
        again, _ = regions.buckets(first, later)
        directly, _ = regions.buckets(times, later)
        assert (again == directly).all()
        first = again


@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("scale", [1, 977, 3.6e9])
@pytest.mark.parametrize("clock", [0, 17, 10**6 + 7, -(10**12)])
def test_a_grid_is_all_buckets(spread, scale, clock):
    regions = regions_of(Polynomial(1.5, scale=scale), spread)
    rng = np.random.default_rng(5)
    ages = np.unique((2.0 ** rng.uniform(0, 44, 5000)).astype(np.int64)) - 1
    first, last = regions.buckets(clock - ages, clock)
    grid = regions.grid(clock - int(ages.max()), clock)
    assert (np.diff(grid) > 0).all()
    place = np.searchsorted(grid, clock - ages, side="right") - 1
    assert (grid[place] == first).all()
    ends = np.append(grid[1:] - 1, last.max())
    assert (ends[place] == last).all()


@pytest.mark.parametrize("clock", [2**63 - 1, 2**63 - 2**59, 2**62, -(2**63) + 2**40])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_buckets_at_the_ends_of_time_are_cut_off(clock, spread):
    """Compared with Python's integers, which are not bounded."""
    decay = Polynomial(1.5, scale=1000)
    regions = regions_of(decay, spread)
    oldest = max(clock - 2**61, -(2**63) + 1)
    rng = np.random.default_rng(1)
    near = (2.0 ** rng.uniform(0, (clock - oldest).bit_length() - 1, 300)).astype(np.int64)
    times = np.unique(np.concatenate([clock - near, oldest + near // 2, [clock, oldest]]))
    first, last = regions.buckets(times, clock)
    edges, blocks = regions._made
    for i, t in enumerate(times.tolist()):
        low = 0
        while low + 1 < len(blocks) and (
            t // blocks[low + 1] * blocks[low + 1] + blocks[low + 1] - 1 <= clock - edges[low + 1]
        ):
            low += 1
        own = blocks[low]
        begin = t // own * own
        end = begin + own - 1
        if low + 1 < len(blocks) and end <= clock - edges[low + 1]:
            begin = t // blocks[low + 1] * blocks[low + 1]
            end = begin + (clock - edges[low + 1] + 1 - begin) // own * own - 1
        assert int(first[i]) == max(begin, -(2**63)), (t, clock)
        assert int(last[i]) == min(end, 2**63 - 1), (t, clock)
    grid = regions.grid(oldest, clock)
    assert (grid[np.searchsorted(grid, times, side="right") - 1] == first).all()


@pytest.mark.parametrize("exponent", [30, 40, 100, 1000])
def test_a_decay_that_floats_cannot_follow_to_its_end(exponent):
    """Regions are single ticks, and then one: values below 1e-290 are not distinguished."""
    regions = regions_of(Polynomial(exponent), 2.0)
    ages = np.unique(np.concatenate([np.arange(2000), np.geomspace(1, 1e18, 2000).astype(int)]))
    first, last = regions.buckets(-ages, 0)
    assert ((first <= -ages) & (-ages <= last)).all()
    grid = regions.grid(-int(ages.max()), 0)
    assert (grid[np.searchsorted(grid, -ages, side="right") - 1] == first).all()


def test_regions_that_rounding_makes_shorter():
    decay = Custom(lambda x: np.maximum(3.0 ** (-x / 2), 1e-6), kinds={"converging"})
    regions = regions_of(decay, 2.0)
    times = np.arange(-3000, 1)
    first, last = regions.buckets(times, 0)
    assert ((first <= times) & (times <= last)).all()
    assert (np.diff(first) >= 0).all()


def test_threads_share_the_regions_of_a_decay():
    def work(spread, seed):
        regions = regions_of(Polynomial(1.5, scale=spread * 1000), spread)
        ages = np.random.default_rng(seed).integers(0, 10**9, 50)
        for age in ages.tolist():
            regions.buckets(np.array([-age]), 0)
        return regions

    for spread in np.linspace(0.05, 0.06, 10).tolist():
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(work, [spread] * 4, range(4)))
        alone = Regions(Polynomial(1.5, scale=spread * 1000), spread)
        alone._reaching(10**9)
        edges, blocks = made[0]._made
        assert edges == alone._made[0][: len(edges)]
        assert blocks == alone._made[1][: len(blocks)]


def test_without_decay_there_is_one_bucket():
    regions = regions_of(NoDecay(), 0.1)
    first, _ = regions.buckets(np.array([-(10**15), 0, 5, 10**15]), 10**16)
    assert np.unique(first).size == 1
    assert regions.grid(-(10**15), 10**16).size == 1
