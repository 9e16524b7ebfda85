"""What the laws do not test: late events, arguments, error texts, sizes of errors."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

import recency
from recency import (
    CorruptSketchError,
    DeterministicWave,
    ExponentialHistogram,
    OutOfOrderError,
    loads,
    merge_all,
)
from states import body_of, change

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
def test_value_zero_has_no_rank_but_changes_latest(cls):
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
def test_windows_are_half_open(cls):
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
def test_leaves_for_a_tree_meet_the_configured_error(cls, levels):
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


def test_repr():
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


@both
def test_window_that_starts_at_a_remembered_time_is_exact_on_both_sides(cls):
    """The units of a gap lie strictly between the times of both entries."""
    sketch = cls(relative_error=0.5)
    times = np.arange(0, 3000, 3)
    sketch.update_many(at=times)
    log = body_of(sketch)
    gaps = log.gaps()[1:]
    after_gap, before_gap = log.times[1:][gaps > 0], log.times[:-1][gaps > 0]
    assert after_gap.size > 3
    for since in [*before_gap.tolist(), *(after_gap - 1).tolist()]:
        answer = sketch.query(2997 - since)
        assert answer.exact
        assert float(answer) == (times > since).sum()
    inside = (before_gap[0] + after_gap[0]) // 2
    assert not sketch.query(2997 - int(inside)).exact


@both
def test_bounds_after_merging_are_those_of_the_displacement(cls):
    parts = [cls(relative_error=0.2) for _ in range(2)]
    for start, part in enumerate(parts):
        part.update_many(at=range(start, 4000, 2))
    merged = merge_all(parts)
    moved = parts[0].guarantee  # ε₂ of one level
    for window in (100, 333, 1000, 3001):
        low, high = (int(b[0]) for b in body_of(merged).bounds(np.array([3999 - window])))
        answer = merged.query(window)
        assert answer.lower == int(np.ceil(round(low / (1 + moved), 6)))
        assert answer.upper == min(4000, int(np.floor(round(high / (1 - moved), 6))))
        assert answer.value == (low + high) / 2


@both
def test_floats_around_a_bound_are_on_its_safe_side(cls):
    """2⁵³ + 1 is not a float; rounding to even goes down there and up at 2⁵³ + 3."""
    for total in (2**53 + 1, 2**53 + 3):
        sketch = cls()
        sketch.update(total, at=0)
        answer = sketch.query()
        assert int(answer.lower) < total < int(answer.upper)


@both
def test_a_unit_that_has_expired_stays_outside_after_merging(cls):
    one = cls(window=100)
    one.update_many(at=[0, *range(101, 122)])
    other = one.empty_like()
    other.update(at=121)
    answer = merge_all([one, other]).query()
    assert answer.lower <= 22 <= answer.upper


@both
def test_merging_sketches_of_zeros_costs_no_accuracy(cls):
    sketch, zeros = cls(window=1000), cls(window=1000)
    sketch.update_many(at=range(5000))
    zeros.update(0, at=5100)
    merged = merge_all([zeros, sketch])
    assert merged.guarantee == sketch.guarantee
    assert merged.latest == 5100
    answer = merged.query()  # (4100, 5100] holds 4101 … 4999
    assert answer.lower <= 899 <= answer.upper


@both
def test_bytes_can_be_read_after_any_number_of_merges(cls):
    sketch, other = cls(relative_error=0.9), cls(relative_error=0.9)
    sketch.update(at=0)
    other.update(at=0)
    change(sketch, merge_factor=1e299)  # as after a few thousand merges in a chain
    for _ in range(10):
        sketch.merge(other)
        assert loads(sketch.to_bytes()) == sketch
    answer = sketch.query()
    assert answer.lower <= 11 <= answer.upper


@both
def test_positions_cannot_run_out_of_int64(cls):
    sketch = cls(by="count")
    sketch.update()
    change(sketch, latest=2**63 - 2)
    sketch.update()
    before = sketch.to_bytes()
    for refused in (lambda: sketch.update(), lambda: sketch.update_many([1, 1])):
        with pytest.raises(ValueError, match="number of updates must stay within int64"):
            refused()
    assert sketch.to_bytes() == before


@both
def test_the_largest_error_below_one(cls):
    sketch = cls(relative_error=np.nextafter(1, 0))
    sketch.update_many(at=range(1000))
    assert sketch.guarantee < 1
    assert loads(sketch.to_bytes()) == sketch


def test_the_memory_of_buffers_is_freed():
    sketch = ExponentialHistogram()
    for at in range(10_000):
        sketch.update(at=at)
    assert sketch._keyed.nbytes > 8 * 10_000
    sketch.query()
    assert sketch._keyed.nbytes < 10_000


def test_arguments_of_wrong_types_are_refused():
    sketch = ExponentialHistogram()
    with pytest.raises(TypeError, match=r"use recency\.loads"):
        recency.Sketch.from_bytes(sketch.to_bytes())
    with pytest.raises(TypeError, match="encode_many takes sketches, got int"):
        recency.encode_many([1])
    with pytest.raises(TypeError, match="the other is a NoneType"):
        sketch.merge(None)
    with pytest.raises(TypeError, match="masked"):
        sketch.update_many(np.ma.array([1, 9], mask=[0, 1]), at=[1, 2])
    for bad in (np.timedelta64(5, "ns"), np.array(5, dtype="timedelta64[s]")):
        with pytest.raises(TypeError, match="value must be"):
            sketch.update(bad, at=1)
    with pytest.raises(TypeError, match="value must be"):
        sketch.update_many([1, np.timedelta64(5, "ns")], at=[1, 2])
    with pytest.raises(TypeError, match="value must be"):
        sketch.update_many(bytearray(b"ab"), at=[1, 2])
    with pytest.raises(TypeError, match="relative_error must be a number"):
        ExponentialHistogram(relative_error=np.complex128(0.1))
    with pytest.raises(ValueError, match="unit must be one of"):
        ExponentialHistogram(unit=np.array(["s", "ms"]))
    sketch.update_many(np.array(3, dtype=object), at=[1, 2])
    assert float(sketch.query()) == 6


def reframed(frame, change):
    """Return the frame with changed bytes and a correct checksum."""
    broken = bytearray(frame)
    change(broken)
    broken[-4:] = zlib.crc32(broken[:-4]).to_bytes(4, "little")
    return bytes(broken)


def test_states_below_the_promise_and_unknown_flags_are_corrupt():
    tight, loose = (ExponentialHistogram(relative_error=e) for e in (0.1, 0.2))
    for sketch in (tight, loose):
        sketch.update(at=1)
    with pytest.raises(CorruptSketchError, match="unknown flags 4"):
        loads(reframed(tight.to_bytes(), lambda frame: frame.__setitem__(4, 4)))
    change(tight, body_of(loose))
    frame = tight.to_bytes()
    with pytest.raises(CorruptSketchError, match="less tight"):
        loads(frame)


def test_positions_before_the_first_are_corrupt():
    sketch = ExponentialHistogram(by="count")
    sketch.update_many([1, 1, 1])
    for shift in (-1, -3):
        log = body_of(sketch)
        change(sketch, replace(log, times=log.times + shift))
        frame = sketch.to_bytes()
        with pytest.raises(CorruptSketchError, match="positions out of range"):
            loads(frame)


@pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])
@pytest.mark.parametrize("error", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("window", [None, 10, 1000])
def test_a_total_at_the_end_of_int64(cls, error, window):
    size = 1000
    sketch = cls(window, error)
    sketch.update_many([2**63 - size] + [1] * (size - 1), at=range(size))
    for width in (1, 2, 7, 10, 500, 999):
        if window is None or width <= window:
            answer = sketch.query(width)
            assert answer.lower <= width <= answer.upper
            assert abs(answer.value - width) <= error * width
    assert loads(sketch.to_bytes()) == sketch
    with pytest.raises(ValueError, match="total must stay within int64"):
        sketch.update(1, at=size)


@pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])
@pytest.mark.parametrize(
    "times", [(-(2**63) + 1, 2**63 - 1), (-(2**63) + 109, 2**62 + 3, 2**63 - 1)]
)
def test_times_half_the_range_apart_are_written_and_read(cls, times):
    sketch = cls(relative_error=0.5)
    sketch.update_many([1000] * len(times), at=times)
    assert loads(sketch.to_bytes()) == sketch
    assert float(sketch.query(2**63 - 1)) == 1000 * sum(time > 0 for time in times)


@pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])
def test_a_count_of_late_events_does_not_wrap(cls):
    sketch = cls(late="clamp")
    sketch.update(at=10)
    change(sketch, late_count=2**63 - 1)
    sketch.update(at=3)
    assert sketch.late_count == 2**63 - 1
    assert loads(sketch.to_bytes()).late_count == 2**63 - 1


def test_levels_of_merging_are_bounded():
    with pytest.raises(ValueError, match=r"merge_levels must be in \[0, 1000\]"):
        ExponentialHistogram().empty_like(merge_levels=10**7)
    assert ExponentialHistogram(relative_error=5e-324).empty_like(merge_levels=1).is_empty
