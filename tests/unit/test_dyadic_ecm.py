"""Scales, rows and cells; refused arguments; memory."""

import numpy as np
import pytest

from recency import DyadicEcm, NoAnswerError, loads
from recency.core.rank_log import EXPONENTIAL, WAVE, RankLog, kept_ranks
from states import body_of


def filled(**settings):
    sketch = DyadicEcm(**{"window": 1000, "universe_bits": 12, **settings})
    rng = np.random.default_rng(1)
    sketch.update_many(rng.zipf(1.3, 3_000) % 4096, at=np.arange(3_000))
    return sketch


@pytest.mark.parametrize("bits", [1, 5, 6, 12, 32, 40, 63])
@pytest.mark.parametrize("width", [2, 64, 100])
def test_every_row_counts_every_event(bits, width):
    grid = DyadicEcm(universe_bits=bits, width=width)._algorithm.grid
    scale = grid.exact_scale
    assert 2 ** (bits - scale) <= width
    assert scale == 0 or 2 ** (bits - scale + 1) > width
    rng = np.random.default_rng(bits)
    items = rng.integers(0, 2**bits, 200, dtype=np.uint64)
    cells = grid.cells_of(items)
    assert cells.shape == (grid.rows, 200)
    assert (cells // width == np.arange(grid.rows)[:, None]).all()
    for scale in range(grid.exact_scale + 1):
        rows = grid.rows_of(scale)
        of_nodes = grid.cells_of_nodes(scale, items >> np.uint64(scale))
        assert (of_nodes == cells[rows.start : rows.stop]).all()
    assert {row for s in range(scale + 1) for row in grid.rows_of(s)} == set(range(grid.rows))


@pytest.mark.parametrize("bits", [30, 50])
def test_collisions_are_as_rare_as_for_random_hashes(bits):
    """Neighbours and multiples of powers of two: pairs that weak hash functions do not separate."""
    pairs = [(0, 1), (5, 6), (1 << 20, 1 << 21), (7, 7 + (1 << (bits - 1))), (3 << 9, 5 << 9)]
    width, trials = 50, 300
    met = np.zeros(len(pairs))
    for seed in range(trials):
        sketch = DyadicEcm(universe_bits=bits, width=width, seed=seed, depth=10)
        for i, pair in enumerate(pairs):
            cells = sketch._algorithm.grid.cells_of_nodes(0, np.array(pair, dtype=np.uint64))
            met[i] += (cells[:, 0] == cells[:, 1]).sum()
    expected = 10 * trials / width
    assert (np.abs(met - expected) < 5 * np.sqrt(expected)).all(), met


@pytest.mark.parametrize("bits", [4, 9])
def test_ranges_are_split_without_gap_or_overlap(bits):
    """With one cell per range, sums are exact for all ranges."""
    sketch = DyadicEcm(universe_bits=bits, width=2**bits + 1, cell_error=0.001)
    rng = np.random.default_rng(2)
    items = rng.integers(0, 2**bits, 500)
    sketch.update_many(items, at=np.arange(500))
    for lo, hi in rng.integers(0, 2**bits, (50, 2)):
        lo, hi = sorted((int(lo), int(hi)))
        answer = sketch.range_count(lo, hi)
        truth = ((items >= lo) & (items <= hi)).sum()
        assert (answer.value, answer.lower, answer.upper) == (truth, truth, truth)
        assert answer.confidence == 1
    for q in (0, 0.3, 0.5, 1):
        truth = np.sort(items)[max(int(np.ceil(q * 500)) - 1, 0)]
        assert sketch.quantile(q).value == truth
    values, counts = np.unique(items, return_counts=True)
    found = sketch.heavy_hitters(int(counts.max()))
    heavy = values[counts >= counts.max() + sketch.guarantee * 500].tolist()
    assert set(heavy) <= {item for item, _ in found}


def test_nodes_of_all_scales_cover_the_range():
    """The decomposition itself, in a narrow sketch: each node's count is at least the truth."""
    sketch = DyadicEcm(universe_bits=10, width=4)
    items = np.random.default_rng(1).integers(0, 1024, 2_000)
    sketch.update_many(items, at=np.arange(2_000))
    for lo, hi in [(0, 1023), (1, 1022), (17, 900), (511, 512), (1023, 1023), (0, 0), (300, 301)]:
        answer = sketch.range_count(lo, hi)
        assert ((items >= lo) & (items <= hi)).sum() <= answer.upper


def test_an_empty_sketch_and_an_empty_window():
    sketch = DyadicEcm(100, universe_bits=8)
    assert sketch.heavy_hitters(0.5) == []
    assert sketch.range_count(0, 255).upper == 0
    with pytest.raises(NoAnswerError, match="needs events"):
        sketch.quantile(0.5)
    sketch.update(7, at=10)
    assert [item for item, _ in sketch.heavy_hitters(0.5)] == [7]
    assert sketch.heavy_hitters(0.5, now=1_000) == []
    assert sketch.range_count(0, 255, now=1_000).upper == 0
    with pytest.raises(NoAnswerError):
        sketch.quantile(0.5, now=1_000)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.heavy_hitters(0.001), r"at least 0.01 \(min_threshold\), got 0.001"),
        (lambda s: s.heavy_hitters(1.0), "threshold"),
        (lambda s: s.heavy_hitters(0), "threshold"),
        (lambda s: s.heavy_hitters(1), r"at least 0.01 of all .* \(min_threshold\), got 1"),
        (lambda s: s.heavy_hitters("0.1"), "threshold"),
        (lambda s: s.heavy_hitters(0.1, window=2000), "window"),
        (lambda s: s.range_count(5, 4), "lo must not be above hi, got 5 and 4"),
        (lambda s: s.range_count(-1, 4), "lo must be"),
        (lambda s: s.range_count(0, 4096), "hi must be"),
        (lambda s: s.range_count(0, 1.5), "hi must be an integer"),
        (lambda s: s.quantile(1.5), "q must be"),
        (lambda s: s.query(4096), "item must be"),
        (lambda s: s.query_many([1, -1]), "items must be"),
        (lambda s: s.query("a"), "item must be an integer"),
        (lambda s: s.update(4096, at=5000), "item must be"),
        (lambda s: s.update_many([1, 4096], at=5000), "item must be"),
        (lambda s: s.update(1, at=5000, id=3), "id must be left out"),
        (lambda s: s.forecast(-1), "events must be"),
    ],
)
def test_refused_updates_change_nothing(ask, message):
    sketch = filled()
    before = sketch.to_bytes()
    with pytest.raises((ValueError, TypeError), match=message):
        ask(sketch)
    assert sketch.to_bytes() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"universe_bits": 0}, "universe_bits"),
        ({"universe_bits": 64}, "universe_bits"),
        ({"universe_bits": 54, "names": True}, "universe_bits"),
        ({"min_threshold": 0}, "min_threshold"),
        ({"names": 1}, "names must be a bool"),
        ({"name_capacity": 5}, "name_capacity is for names=True"),
        ({"cell_capacity": 5}, 'cell_capacity is for counter="rw"'),
        ({"width": 1}, "width"),
        ({"depth": 1, "range_depth": 3}, "depth must be in .3, 64., got 1"),
        ({"range_depth": -1000}, "range_depth"),
        ({"range_depth": "3"}, "range_depth"),
        ({"min_threshold": 1e-30}, "min_threshold must be at least"),
        ({"width": 1 << 20}, "at most 2097152 cells"),
        ({"counter": "x"}, "counter"),
        ({"counter": "rw", "late": "clamp"}, "leave out late"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DyadicEcm(**settings)


def test_hashes_have_no_order():
    sketch = DyadicEcm(names=True)
    sketch.update("a", at=1)
    with pytest.raises(ValueError, match="range_count needs integers"):
        sketch.range_count(0, 5)
    with pytest.raises(ValueError, match="quantile needs integers"):
        sketch.quantile()


def test_items_of_several_kinds_have_names():
    sketch = DyadicEcm(names=True)
    sketch.update_many(["a"] * 30, at=range(30))
    sketch.update_many([-5] * 20, at=range(30, 50), id=range(20))
    for i in range(10):
        sketch.update(b"raw", at=50 + i, weight=2)
    sketch.update("nothing", at=60, weight=0)
    assert {item for item, _ in sketch.heavy_hitters(0.05)} == {"a", -5, b"raw"}
    again = loads(sketch.to_bytes())
    assert again == sketch
    assert again.heavy_hitters(0.05) == sketch.heavy_hitters(0.05)
    _, names = body_of(sketch).each
    assert "nothing" not in names.sample.columns[1].tolist()


@pytest.mark.parametrize("rule", [EXPONENTIAL, WAVE])
@pytest.mark.parametrize("tightness", [3, 10, 41])
def test_kept_ranks_are_those_of_a_log(rule, tightness):
    none = np.full(1, -1)
    for total in (0, 1, 5, 100, 1000, 12345):
        log = RankLog.empty(rule, np.array([tightness]))
        times = np.arange(total)
        log = log.append(np.zeros(total, np.int64), times, np.ones(total, np.int64), none)
        assert kept_ranks(rule, np.array([total]), tightness)[0] == log.times.size


@pytest.mark.parametrize("counter", ["eh", "dw"])
@pytest.mark.parametrize("events", [1_000, 100_000])
def test_memory_is_forecast(counter, events):
    sketch = DyadicEcm(counter=counter, universe_bits=24)
    items = np.random.default_rng(1).integers(0, 2**24, events)
    sketch.update_many(items, at=np.arange(events))
    log = body_of(sketch).cells.log
    taken = sum(each.nbytes for each in (log.times, log.ranks, log.values))
    assert (
        taken
        <= sketch.forecast(events, seen=events)
        <= 1.6 * taken + 24 * 13 * sketch._algorithm.grid.size
    )


def test_the_defaults_fit_into_20_megabytes():
    assert DyadicEcm(window="1 day", unit="s").forecast(1_000_000) <= 20_000_000


def test_memory_of_windows_that_move_and_of_tight_leaves():
    items = np.random.default_rng(1).integers(0, 4096, 200_000)
    for sketch, most in (
        (DyadicEcm(100, universe_bits=12), 100),
        (DyadicEcm(universe_bits=12).empty_like(merge_levels=4), items.size),
    ):
        sketch.update_many(items, at=np.arange(items.size))
        log = body_of(sketch).cells.log
        taken = sum(each.nbytes for each in (log.times, log.ranks, log.values))
        assert taken <= sketch.forecast(most, seen=items.size)


@pytest.mark.parametrize("q", [0.01, 0.5, 0.99, 1])
def test_quantiles_of_one_value(q):
    sketch = DyadicEcm()
    sketch.update_many([1000] * 10_000, at=range(10_000))
    assert sketch.quantile(q).value == 1000
    one = DyadicEcm()
    one.update(1000, at=1)
    assert one.quantile(q).value == 1000


def test_bounds_beyond_2_to_53_are_rounded_outward():
    for item in (2**60 + 129, 2**60 + 1):
        sketch = DyadicEcm(universe_bits=63, width=1000)
        sketch.update_many([item] * 100, at=range(100))
        answer = sketch.quantile(0.5)
        assert int(answer.lower) <= item <= int(answer.upper)
    for seed in range(290, 310):
        rng = np.random.default_rng(seed)
        weights = [int(weight) for weight in rng.integers(2**53, 2**57, 50)]
        items = rng.integers(0, 256, 50)
        sketch = DyadicEcm(universe_bits=8, width=300, seed=seed)
        sketch.update_many(items, at=np.arange(50), weight=weights)
        truth = sum(w for w, x in zip(weights, items.tolist(), strict=True) if 49 <= x <= 116)
        answer = sketch.range_count(49, 116)
        assert int(answer.lower) <= truth <= int(answer.upper)


def test_range_counts_are_not_biased():
    """Averaged over hash functions, with and without collisions of ranges."""
    items = np.arange(4096)
    for width in (3, 5, 17):
        values = []
        for seed in range(40):
            sketch = DyadicEcm(universe_bits=12, width=width, depth=31, range_depth=31, seed=seed)
            sketch.update_many(items, at=items)
            values.append(sketch.range_count(0, 2048).value)
        assert abs(np.mean(values) / 2049 - 1) < 0.1


def test_a_name_in_the_window_is_preferred():
    sketch = DyadicEcm(names=True, universe_bits=1)
    sketch.update_many([f"old {i}" for i in range(500)], at=range(500))
    sketch.update_many(["new"] * 100, at=range(1000, 1100))
    assert "new" in [item for item, _ in sketch.heavy_hitters(0.5, 100)]
