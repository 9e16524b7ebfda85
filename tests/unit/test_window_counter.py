"""What the laws do not say: late data, arguments, wording, sizes of errors."""

import numpy as np
import pytest

from recency import (
    CorruptSketchError,
    DeterministicWave,
    ExponentialHistogram,
    OutOfOrderError,
    loads,
    merge_all,
)

both = pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])


@both
def test_late_event_is_refused_and_changes_nothing(cls):
    sketch = cls(window=100)
    sketch.update_many(at=[10, 50, 30])  # any order within one call
    before = sketch.to_bytes()
    with pytest.raises(OutOfOrderError, match=r"before the latest time seen \(50\), got 49"):
        sketch.update(at=49)
    with pytest.raises(OutOfOrderError, match="got 20"):
        sketch.update_many([1, 1, 1], at=[60, 20, 70])
    assert sketch.to_bytes() == before
    sketch.update(at=50)
    assert float(sketch.query(1)) == 2


@both
def test_late_events_can_be_clamped_and_are_reported(cls):
    sketch = cls(window=100, late="clamp")
    sketch.update_many(at=[10, 50])
    sketch.update(3, at=20)
    sketch.update_many([1, 1], at=[5, 60])
    assert sketch.late_count == 2
    assert sketch.latest == 60
    assert float(sketch.query(10)) == 1
    assert float(sketch.query(11)) == 1 + 3 + 1 + 1
    other = cls(window=100, late="clamp")
    other.update_many(at=[9, 8])  # nothing before this call: nothing is late
    assert other.late_count == 0
    assert merge_all([sketch, other]).late_count == 2
    assert loads(sketch.to_bytes()).late_count == 2


@both
def test_value_zero_takes_no_rank_but_moves_the_clock(cls):
    sketch = cls(window=10)
    sketch.update(at=1)
    sketch.update(0, at=100)
    assert sketch.latest == 100
    assert not sketch.is_empty
    assert sketch.query().exact
    assert float(sketch.query()) == 0
    only_zero = cls(window=10)
    only_zero.update(0, at=5)
    assert (only_zero.latest, float(only_zero.query())) == (5, 0)
    assert loads(only_zero.to_bytes()) == only_zero


@both
def test_windows_are_half_open_and_tile(cls):
    sketch = cls()
    sketch.update_many(at=[1, 2, 3, 4, 5, 6])
    assert [float(sketch.query(w)) for w in (1, 2, 6, 7)] == [1, 2, 6, 6]
    assert float(sketch.query(2, now=7)) == 1  # (5, 7]
    assert float(sketch.query(2, now=8)) == 0
    assert float(sketch.query()) == 6


@both
def test_questions_out_of_range_are_refused(cls):
    sketch = cls(window=60, unit="s")
    sketch.update(at=1000)
    with pytest.raises(ValueError, match=r"window must be in \[1, 60\], got 61"):
        sketch.query(61)
    with pytest.raises(ValueError, match=r"window must be in \[1, 60\], got 3600"):
        sketch.query("1 hour")
    with pytest.raises(ValueError, match="window must be at least 1"):
        sketch.query(0)
    with pytest.raises(ValueError, match=r"now must not be before the latest .* \(1000\), got 999"):
        sketch.query(10, now=999)
    for bad in (1.5, "x", True):
        with pytest.raises(TypeError, match="now must be an integer"):
            sketch.query(10, now=bad)
    by_count = cls(by="count")
    by_count.update()
    with pytest.raises(TypeError, match="now must be left out"):
        by_count.query(1, now=5)


@both
@pytest.mark.parametrize("bad", [0, 1, 1.5, -0.1, float("nan"), 2])
def test_relative_error_outside_its_interval_is_refused(cls, bad):
    with pytest.raises(ValueError, match=r"relative_error must be in \(0, 1\), got"):
        cls(relative_error=bad)


@both
def test_other_constructor_arguments(cls):
    for bad in ("0.1", None, True):
        with pytest.raises(TypeError, match="relative_error must be a number"):
            cls(relative_error=bad)
    with pytest.raises(ValueError, match="window must be at least 1"):
        cls(window=0)
    with pytest.raises(ValueError, match=r"by must be one of \['time', 'count'\], got 'rows'"):
        cls(by="rows")
    with pytest.raises(ValueError, match="late must be one of"):
        cls(late="drop")
    for extra in ({"unit": "s"}, {"late": "clamp"}):
        with pytest.raises(ValueError, match="has no clock"):
            cls(by="count", **extra)
    assert cls(relative_error=1e-300).guarantee < 1e-15


@both
def test_times_at_both_ends_of_int64(cls):
    first, last = -(2**63) + 1, 2**63 - 1
    sketch = cls(window=2**63 - 1)
    sketch.update(at=first)
    sketch.update(at=last)
    assert float(sketch.query(1)) == 1
    assert float(sketch.query()) == 1
    assert loads(sketch.to_bytes()) == sketch
    unbounded = cls()
    unbounded.update_many(at=[last, first])
    assert float(unbounded.query()) == 2
    assert loads(unbounded.to_bytes()) == unbounded


@both
def test_totals_up_to_int64_and_bounds_that_are_never_rounded_inward(cls):
    sketch = cls(relative_error=0.5)
    values = [2**61 + 1, 2**61 + 3, 2**60 + 7, 2**60 + 1, 2**59 + 1]
    for at, value in enumerate(values):
        sketch.update(value, at=at)
    for window in range(1, 6):
        truth = sum(values[-window:])
        answer = sketch.query(window)
        assert int(answer.lower) <= truth <= int(answer.upper)
    with pytest.raises(ValueError, match="total must stay within int64"):
        sketch.update(2**62, at=9)
    other = sketch.copy()
    with pytest.raises(ValueError, match="total must stay within int64"):
        sketch.merge(other)
    assert sketch == other


@both
def test_guarantee_grows_by_a_factor_for_each_level_of_merging(cls):
    def leaf(start):
        sketch = cls(relative_error=0.1)
        sketch.update_many(at=range(start, 1000, 8))
        return sketch

    leaves = [leaf(start) for start in range(8)]
    factor = 1 + leaves[0].guarantee
    assert leaves[0].guarantee <= 0.1
    chain = leaves[0].copy()
    for other in leaves[1:]:
        chain.merge(other)
    assert chain.guarantee == pytest.approx(factor**8 - 1)
    assert merge_all(leaves).guarantee == pytest.approx(factor**2 - 1)
    tree = [merge_all(leaves[:4]), merge_all(leaves[4:])]
    assert merge_all(tree).guarantee == pytest.approx(factor**3 - 1)
    assert merge_all([tree[0], cls(relative_error=0.1)]).guarantee == tree[0].guarantee


@both
@pytest.mark.parametrize("levels", [1, 2, 5])
def test_leaves_made_for_a_tree_meet_the_error_asked_for(cls, levels):
    prototype = cls(window=5000, relative_error=0.1)
    forest = []
    for start in range(2**levels):
        sketch = prototype.empty_like(merge_levels=levels)
        sketch.update_many(at=np.arange(start, 20_000, 2**levels))
        forest.append(sketch)
    while len(forest) > 1:
        forest = [merge_all(forest[i : i + 2]) for i in range(0, len(forest), 2)]
    assert forest[0].guarantee <= 0.1
    assert forest[0].config == prototype.config
    for window in (3, 17, 170, 1700, 5000):
        answer = forest[0].query(window)
        assert abs(float(answer) - window) <= 0.1 * window
        assert answer.lower <= window <= answer.upper
    assert loads(forest[0].to_bytes()) == forest[0]


@both
def test_logs_of_different_tightness_merge(cls):
    prototype = cls(relative_error=0.2)
    loose, tight = prototype.empty_like(), prototype.empty_like(merge_levels=3)
    loose.update_many(at=range(0, 1000, 2))
    tight.update_many(at=range(1, 1000, 2))
    assert tight.guarantee < loose.guarantee
    merged = merge_all([loose, tight])
    assert merged == merge_all([tight, loose])
    moved = max(loose.guarantee, tight.guarantee)
    assert merged.guarantee == pytest.approx((1 + moved) * (1 + tight.guarantee) - 1)
    assert merge_all([loose, tight.empty_like(merge_levels=3)]) == loose


def test_repr_says_what_one_wants_to_know():
    sketch = ExponentialHistogram(window="1 h", unit="s")
    assert repr(sketch).startswith("ExponentialHistogram(guarantee=0.05, window=3600 s, empty, ")
    sketch.update_many(at=range(100))
    assert "total=100, latest=99" in repr(sketch)
    assert f"{len(sketch.to_bytes())} bytes" in repr(sketch)


def test_the_caller_may_reuse_its_arrays():
    sketch, times = ExponentialHistogram(), np.arange(10)
    sketch.update_many(np.ones(10, dtype=np.int64), at=times)
    times += 1000
    assert float(sketch.query(10)) == 10
    assert sketch.latest == 9


def test_wrong_family_and_unknown_bytes_are_named():
    wave, histogram = DeterministicWave(), ExponentialHistogram()
    with pytest.raises(
        CorruptSketchError, match="corrupt ExponentialHistogram: expected family 1, got 2"
    ):
        ExponentialHistogram.from_bytes(wave.to_bytes())
    with pytest.raises(CorruptSketchError, match="expected magic"):
        loads(b"x" + histogram.to_bytes())
    with pytest.raises(CorruptSketchError, match="expected at least"):
        loads(b"")
    newer = bytearray(histogram.to_bytes())
    newer[2] = 99
    with pytest.raises(CorruptSketchError, match="expected format 1 to 1, got 99"):
        loads(newer)
    for bad in (None, "RC", 5, [1]):
        with pytest.raises(TypeError, match="must be bytes"):
            loads(bad)


def test_merge_all_needs_sketches():
    with pytest.raises(ValueError, match="at least one"):
        merge_all([])
    with pytest.raises(TypeError, match="takes sketches, got int"):
        merge_all([1, 2])
