import math
from dataclasses import astuple, fields

import numpy as np
import pytest

from recency import (
    Bank,
    CorruptSketchError,
    DyadicEcm,
    EcmSketch,
    Estimate,
    IncompatibleSketchError,
    encode_many,
    loads,
    merge_all,
)
from recency.core import codec
from recency.core.hashing import hash_integers

COUNTERS = ["eh", "dw", "rw"]


def example(**settings):
    sketch = EcmSketch(**{"window": 1000, **settings})
    sketch.update_many(["a", "b", "a", "c"] * 100, at=np.arange(400), weight=[1, 2, 3, 0] * 100)
    return sketch


@pytest.mark.parametrize("counter", COUNTERS)
def test_counts_of_few_items_are_exact_midpoints(counter):
    sketch = example(counter=counter)
    assert sketch.total().lower <= 600 <= sketch.total().upper
    for item, truth in {"a": 400, "b": 200, "c": 0, "d": 0}.items():
        answer = sketch.query(item)
        assert answer.lower <= truth <= answer.upper
        assert abs(float(answer) - truth) <= 0.05 * 600
    assert float(sketch.self_join()) == pytest.approx(400**2 + 200**2, rel=0.1)


def test_query_many_equals_one_query_per_item():
    sketch = example()
    items = ["a", "b", "c", 5, b"a"]
    many = sketch.query_many(items, 100)
    assert type(many.confidence) is float
    for i, item in enumerate(items):
        one = sketch.query(item, 100)
        assert (one.value, one.lower, one.upper) == (many.value[i], many.lower[i], many.upper[i])
    assert many.confidence == pytest.approx(1 - math.exp(-3))
    assert sketch.query_many([]).value.size == 0


def test_items_are_certainly_absent_from_empty_cells():
    sketch = EcmSketch(width=500)
    sketch.update_many(range(5), at=range(5))
    absent = sketch.query("nowhere")
    assert (absent.upper, absent.confidence) == (0, 1)
    assert absent.exact


@pytest.mark.parametrize("counter", COUNTERS)
def test_counters_are_an_array_whose_rows_have_one_sum(counter):
    sketch = example(counter=counter)
    cells = sketch.counters()
    assert cells.shape == (sketch.config.depth, sketch.config.width)
    assert cells.sum(axis=1) == pytest.approx([600] * sketch.config.depth, rel=0.03)
    assert sketch.counters(100, now=5_000).tolist() == np.zeros(cells.shape).tolist()


def test_empty_sketches():
    for counter in COUNTERS:
        sketch = EcmSketch(counter=counter)
        zero = Estimate(0.0, 0.0, 0.0)
        assert sketch.total() == sketch.self_join() == sketch.inner_product(sketch) == zero
        assert sketch.query("a") == zero
        assert not sketch.counters().any()
        zeros = sketch.copy()
        zeros.update_many(["a", "b"], at=[1, 2], weight=0)
        assert zeros.latest == 2
        assert zeros.query("a") == zero
        assert merge_all([zeros, zeros]).latest == 2
        assert type(sketch).from_bytes(zeros.to_bytes()) == zeros


def test_cells_are_spread_evenly_and_rows_are_independent():
    sketch = EcmSketch(width=100, depth=8)
    cells = sketch._algorithm.grid.cells_of(hash_integers(np.arange(200_000), 0))
    cells -= 100 * np.arange(8)[:, None]
    for row in cells:
        assert abs(np.bincount(row, minlength=100) - 2_000).max() < 6 * math.sqrt(2_000)
    for a in range(8):
        for b in range(a):
            pairs = np.bincount(cells[a] * 100 + cells[b], minlength=10_000)
            assert ((pairs - 20) ** 2 / 20).sum() < 10_000 + 6 * math.sqrt(20_000)


def test_inner_products_need_equal_settings():
    sketch = example()
    for other, reason in [
        (example(seed=1), r"cannot multiply EcmSketch: seed differs \(0 vs 1\)"),
        (example(width=50), r"width differs \(111 vs 50\)"),
        (example(window=999), "window differs"),
        (example(counter="dw"), "counter differs"),
    ]:
        with pytest.raises(IncompatibleSketchError, match=reason):
            sketch.inner_product(other)
    with pytest.raises(TypeError, match="cannot multiply EcmSketch: the other is a int"):
        sketch.inner_product(5)


def test_inner_products_use_the_same_window_of_both():
    early, late = EcmSketch(window=100), EcmSketch(window=100)
    early.update_many(["x"] * 10, at=range(10))
    late.update_many(["x"] * 10, at=range(95, 105))
    assert float(early.inner_product(late)) == 10 * 5  # (4, 104]
    assert float(early.inner_product(late)) == float(late.inner_product(early))
    assert float(early.inner_product(late, 100, now=200)) == 0
    with pytest.raises(ValueError, match="now must not be before"):
        early.inner_product(late, now=50)
    by_count = [EcmSketch(by="count", window=10) for _ in range(2)]
    for sketch, size in zip(by_count, (4, 20), strict=True):
        sketch.update_many(["x"] * size)
    assert float(by_count[0].inner_product(by_count[1])) == 40


def test_count_based_windows_refuse_to_merge_and_have_no_clock():
    sketch = EcmSketch(by="count", window=10)
    sketch.update("x")
    with pytest.raises(IncompatibleSketchError, match="count-based windows do not say"):
        sketch.merge(sketch.copy())
    with pytest.raises(TypeError, match="at must be left out"):
        sketch.update("x", at=5)
    with pytest.raises(TypeError, match="now must be left out"):
        sketch.query("x", now=5)


def test_large_weights_do_not_overflow():
    sketch = EcmSketch()
    sketch.update_many(["x", "y"], at=[1, 2], weight=[2**62, 2**61])
    assert sketch.query("x", 5).upper >= 2**62
    assert sketch.total().upper == 2**62 + 2**61
    again = type(sketch).from_bytes(sketch.to_bytes())
    assert again == sketch
    with pytest.raises(ValueError, match="total must stay within int64"):
        sketch.update("x", at=3, weight=2**62)


def test_settings():
    for settings, reason in [
        ({"counter": "cm"}, "counter must be one of"),
        ({"optimize_for": "speed"}, "optimize_for must be one of"),
        ({"width": 0}, "width must be in"),
        ({"depth": 65}, "depth must be in"),
        ({"width": 1 << 24, "depth": 10}, "at most 1048576 cells"),
        ({"counter": "rw", "late": "clamp"}, "leave out late"),
        ({"cell_capacity": 5}, 'for counter="rw" alone'),
        ({"relative_error": 1.5}, r"relative_error must be in \(0, 1\), got 1.5"),
    ]:
        with pytest.raises(ValueError, match=reason):
            EcmSketch(**settings)
    sketch = EcmSketch()
    assert (sketch.config.width, sketch.config.depth) == (111, 3)
    assert "3 × 111 eh" in repr(example())


def test_hostile_sizes_are_refused_before_memory_is_allocated():
    large = EcmSketch(width=1 << 16, depth=16)
    assert len(large.to_bytes()) < 200
    assert type(large).from_bytes(large.to_bytes()) == large


@pytest.mark.parametrize("optimize_for", ["point", "inner_product"])
@pytest.mark.parametrize("confidence", [0.9, 0.935, 0.94, 0.95, 0.98, 0.99])
def test_samples_keep_the_configured_confidence(confidence, optimize_for):
    sketch = EcmSketch(10, 0.3, confidence, counter="rw", optimize_for=optimize_for)
    sketch.update(1, at=1)
    assert sketch.query(1).confidence >= confidence - 1e-12
    assert sketch.self_join().confidence >= confidence - 1e-12
    assert sketch.guarantee <= 0.3


@pytest.mark.parametrize("counter", COUNTERS)
def test_returned_arrays_are_copies(counter):
    sketch = example(counter=counter)
    before = sketch.query("a"), sketch.self_join()
    sketch.counters()[:] = 0
    sketch.query_many(["a"]).value[:] = 0
    assert (sketch.query("a"), sketch.self_join()) == before
    empty = EcmSketch(counter=counter).query_many(["a", "b"])
    empty.value[:] = 5
    assert not empty.upper.any()


def test_sampled_sums_are_exact_in_any_order():
    sketch = EcmSketch(100, counter="rw", cell_capacity=100, width=2, depth=2, cell_error=0.1)
    for weight in [2**53] + [1] * 5:
        sketch.update(5, at=1, weight=weight)
    again = type(sketch).from_bytes(sketch.to_bytes())
    assert again.total() == sketch.total()
    assert sketch.total().lower <= 2**53 + 5 <= sketch.total().upper


@pytest.mark.parametrize("weight", range(2**27 + 1, 2**27 + 60, 2))
def test_upper_bounds_of_products_are_certain_beyond_two_to_the_53(weight):
    sketch = EcmSketch(10, width=8, depth=1, cell_error=0.1)
    sketch.update(5, at=1, weight=weight)
    assert int(sketch.self_join().upper) >= weight**2


def test_zeros_merge_in_any_order():
    prototype = EcmSketch(10, 0.3)
    loose, tight = prototype.empty_like(), prototype.empty_like(merge_levels=3)
    for sketch in (loose, tight):
        sketch.update(1, at=1, weight=0)
    assert merge_all([loose, tight]) == merge_all([tight, loose])


def test_a_finalized_sketch_answers_like_its_bytes():
    prototype = EcmSketch(10**6, 0.3)
    sketch = prototype.empty_like(merge_levels=4)
    sketch.update_many([1] * 20_000, at=range(20_000))
    sketch.query(1, 777)
    sketch._finalize(prototype)
    assert sketch.query(1, 777) == EcmSketch.from_bytes(sketch.to_bytes()).query(1, 777)


def test_bytes_without_a_geometry_are_refused_immediately():
    for counter in COUNTERS:
        sketch = EcmSketch(10, 0.3, counter=counter)
        values = list(astuple(sketch.config))
        for name in ("width", "depth", "cell_error", "cell_capacity"):
            place = [field.name for field in fields(sketch.config)].index(name)
            if values[place] is None:
                continue
            config = codec.encode_config([*values[:place], None, *values[place + 1 :]])
            writer = codec.RecordWriter(1)
            writer.scalar(np.zeros(1, dtype=np.uint64))
            frame = codec.encode_many(EcmSketch.family, config, writer)[0]
            with pytest.raises(CorruptSketchError, match=f"no {name}"):
                EcmSketch.from_bytes(frame)


@pytest.mark.parametrize("counter", ["eh", "dw"])
def test_merging_totals_that_do_not_fit_int64_in_all_rows_together(counter):
    """Each row counts all events: the sum over rows may exceed int64 where the total does not."""
    rng = np.random.default_rng(3)
    for seed in range(12):
        parts, recent = [], 0
        for part in range(40):
            sketch = EcmSketch(relative_error=0.3, depth=2, counter=counter, seed=seed)
            weights = rng.integers(0, 10**15, 300)
            at = np.arange(300) * 40 + part
            sketch.update_many(rng.integers(0, 1000, 300), at=at, weight=weights)
            parts.append(sketch)
            recent += int(weights[200:].sum())
        merged = merge_all(parts)
        answer = merged.total(4000)
        assert answer.lower <= recent <= answer.upper
        assert loads(merged.to_bytes()) == merged


def test_bytes_of_sampled_cells_with_weights_near_two_to_the_53_are_read():
    rng = np.random.default_rng(0)
    for _ in range(30):
        sketch = EcmSketch(counter="rw", relative_error=0.3)
        sketch.update_many([0, 1, 2], at=0, weight=rng.integers(2**52, 2**53, 3))
        assert loads(sketch.to_bytes()) == sketch


def _all_forgotten(**other):
    """Copies of one event share its coin: a level with too many of them keeps none."""
    sketch = EcmSketch(counter="rw", width=4, depth=1, cell_error=0.5, cell_capacity=2, **other)
    sketch.update_many(["a"] * 9, at=5, id=1)
    return sketch


def test_a_sample_with_edges_and_no_elements_merges():
    forgot = _all_forgotten()
    assert forgot.total().upper == math.inf
    assert forgot.empty_like().merge(forgot) == forgot
    assert merge_all([forgot.empty_like(), forgot, forgot.empty_like()]) == forgot
    other = forgot.empty_like(stream=1)
    other.update("b", at=6)
    assert encode_many([other, forgot]) == [other.to_bytes(), forgot.to_bytes()]
    assert other.copy().merge(forgot) == forgot.copy().merge(other)
    assert other.merge(forgot).total().upper == math.inf


def test_zero_times_an_unbounded_count_is_zero():
    forgot = _all_forgotten(optimize_for="inner_product")
    nothing = Estimate(0.0, 0.0, 0.0)
    assert forgot.inner_product(forgot.empty_like()) == nothing
    assert forgot.empty_like().inner_product(forgot) == nothing


def test_dyadic_answers_without_upper_bounds():
    ports = DyadicEcm(counter="rw", universe_bits=1, width=4, cell_capacity=2)
    assert ports.range_count(0, 1) == Estimate(0.0, 0.0, 0.0)
    ports.update_many([1] * 9, at=5, id=1)
    answer = ports.query(1)
    assert answer.lower <= 9 <= answer.upper == math.inf


@pytest.mark.parametrize("counter", COUNTERS)
def test_one_key_may_be_asked_several_times_in_a_call(counter):
    bank = Bank(DyadicEcm(counter=counter, names=True))
    bank.update_many(["a", "b", "a"], ["x", "y", "x"], at=[1, 2, 3])
    assert bank.total(keys=["a", "b", "a", "a"]).value.tolist() == [2, 1, 2, 2]
    names = [[name for name, _ in each] for each in bank.heavy_hitters(0.5, keys=["a", "b", "a"])]
    assert names == [["x"], ["y"], ["x"]]
