"""Decayed sums of elements above a threshold (Cormode, Tirthapura & Xu 2009, §3.2)."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.column import Column, SketchColumn
from recency.converging import check_converging
from recency.core import validate
from recency.core.arrays import (
    INT64_MIN,
    BoolArray,
    FloatArray,
    Int64Array,
    UInt64Array,
    offsets,
    ticks_between,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt, zigzag
from recency.core.hashing import chained, check_one, hash_items
from recency.core.level_sample import (
    EXPONENT_ZERO,
    Columns,
    LevelSample,
    Places,
    exponents,
    group_of,
    levels_of_weights,
    take,
)
from recency.core.merging import MOST_REGIONS, number_of_regions, regions_of
from recency.core.sample_states import (
    AgeCodec,
    ColumnCodec,
    NumberCodec,
    SampleStates,
    times_before,
)
from recency.core.sizing import capacity_for_count, kept_relative_error
from recency.decay import Decay, FiniteExponential, NoDecay
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.event_sketch import DrawsCoins
from recency.sum_wave import MOST_SUMMAND
from recency.timeunit import UNITS, to_tick, to_ticks
from recency.weighed import Triple, Weighed, by_value, reaching, share
from recency.windowed import Time

_SPREAD = 2.0
_LEAST_SPREAD = 0.01
_MOST_SPREAD = 1e6
_KEPT = 1_000_000  # elements under a finite exponential decay
_SURELY = 5.0  # standard deviations


@dataclass(frozen=True)
class WeightBasedMergingHistogramConfig:
    """Configuration of a weight-based merging histogram."""

    decay: Decay
    relative_error: float
    confidence: float
    max_value: float | None
    spread: float
    capacity: int
    seed: int
    unit: str | None


class WeightBasedMergingHistogram(DrawsCoins):
    """Decayed correlated sums: Σ weight · f(age) of elements with value ≥ τ, τ chosen when asked.

    **Guarantee.** For a *converging* decay, within ``relative_error`` of the truth with probability
    ``confidence``, for any one threshold and time — however little of the whole lies above the
    threshold (Theorem 3.3); exact while nothing above it was discarded. ``count`` has an interval,
    and the same guarantee if all weights are equal. What is made of differences has the error
    relative to more than itself: ``range_sum`` to the sum from ``lo`` on, ``relative_frequency``
    and ``heavy_hitters`` to the sum of all.

    **Cost.** Elements are grouped by age into buckets within which the decay differs by 1 +
    ``spread`` at most, 2·log(f(0)/f(oldest age))/log(1 + spread) of them; each is a sample with
    ``capacity`` elements per level, 2 360 at the defaults.

    **Merging** is exact. Sketches that are built side by side need different ``stream`` numbers, or
    ids: otherwise equal events with equal indices share coins, and their errors add up.

    **Time.** Late events count where they belong; idle time costs nothing.

    Parameters
    ----------
    decay
        Converging and not exponential: ``Polynomial``, ``NoDecay``, a ``Custom`` one that says so.
        For others there is no small summary with relative errors (Theorems 4.1 to 4.3), and they
        are refused; but for ``FiniteExponential``, under which all elements that count are kept
        (§4.4), ``capacity`` of them at most. Updates and merges beyond that are refused.
    relative_error, confidence
        In (0, 1).
    max_value
        Values are in [0, max_value]; None for no bound.
    stream
        Tells apart sketches that are built side by side and merged later.
    spread
        How much the decay may differ within a bucket; None for 2, a factor of three.
    capacity
        Elements per level; None for what ``relative_error`` and ``confidence`` need.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import WeightBasedMergingHistogram
    >>> from recency.decay import Polynomial
    >>> calls = WeightBasedMergingHistogram(Polynomial(1.5, scale=100), relative_error=0.1)
    >>> calls.update_many([n * 7919 % 1000 for n in range(50_000)], at=range(50_000))
    >>> round(float(calls.query(threshold=990)), 3)  # one call in a hundred; exact: 2.372
    2.372
    >>> answer = calls.query()  # exact: 191.57
    >>> answer.lower <= 191.57 <= answer.upper
    True

    References
    ----------
    Cormode, Tirthapura & Xu, *Time-Decayed Correlated Aggregates over Data Streams*, Statistical
    Analysis and Data Mining 2009, §3.2; Cohen & Strauss, *Maintaining Time-Decaying Stream
    Aggregates*, J. Algorithms 2006.
    """

    family = 10
    config: WeightBasedMergingHistogramConfig
    config_class = WeightBasedMergingHistogramConfig
    _distinct = False
    _pending_columns = 4  # coin, value, weight, time
    _level_range = (-1074, 1014)
    _samples_vary = True

    def __init__(
        self,
        decay: Decay,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        max_value: float | None = None,
        stream: int = 0,
        *,
        spread: float | None = None,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        check_converging(decay)
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        most = None if max_value is None else validate.number(max_value, "max_value", 0) + 0.0
        if spread is None:
            spread = _SPREAD
        spread = validate.number(spread, "spread", _LEAST_SPREAD, _MOST_SPREAD)
        if number_of_regions(decay, spread) > MOST_REGIONS:
            raise ValueError(
                f"spread must be larger, got {spread:g}: {decay} would have more than "
                f"{MOST_REGIONS} regions"
            )
        if capacity is None:
            capacity = _usual_capacity(decay, error, sure, spread)
        self.config = WeightBasedMergingHistogramConfig(
            decay,
            error,
            sure,
            most,
            spread,
            validate.integer(capacity, "capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        self._start()
        self._stream = validate.integer(stream, "stream", 0)

    def _start(self) -> None:
        config = self.config
        self._keeps_all = isinstance(config.decay, FiniteExponential)
        self._regions = regions_of(NoDecay() if self._keeps_all else config.decay, config.spread)
        super()._start()
        self._stream = self._index = 0
        self._least = 0  # exponent of the least weight
        self._places: Places | None = None  # for questions, as long as the sample is the same
        self._grid = np.empty(0, dtype=np.int64)
        """The first ticks of the buckets, ascending; a bucket's place here is its key."""

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        return "capacity", "spread"

    def _codecs(self) -> Sequence[ColumnCodec]:
        return [NumberCodec(), AgeCodec()]

    def _kinds_of_columns(self) -> Sequence[Any]:
        return [np.float64, np.int64]  # weight, time; values take the place of times

    # --- update ---

    def update(self, value: float, *, at: Time, weight: float = 1, id: Any = None) -> None:
        """See an element; ``weight`` ≥ 0; ``id`` (int, str or bytes), if given, makes the coin."""
        number = validate.number(value, "value", 0, self._most_value, exact=True)
        heavy = validate.number(weight, "weight", 0, MOST_SUMMAND)
        if id is not None:
            check_one(id, "id")
        tick = to_tick(at, self.config.unit)
        if self._keeps_all:
            self._check_room(np.array([tick]), np.array([heavy]))
        self._add_row((number, heavy, tick, id), tick)

    def update_many(self, value: Any, *, at: Any, weight: Any = 1, id: Any = None) -> None:
        """:meth:`update` for arrays; a scalar goes with all elements of the others."""
        values = validate.numbers(value, "value", 0, self._most_value, exact=True)
        weights = validate.numbers(weight, "weight", 0, MOST_SUMMAND)
        ticks = to_ticks(at, self.config.unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "weight": weights, "at": ticks}
        ids = self._hashed_ids(id, columns)
        size = validate.common_length(columns)
        if not size:
            return
        values = np.broadcast_to(values, size) + 0.0  # a copy, in which zero has one sign
        weights, ticks = np.broadcast_to(weights, size) + 0.0, np.broadcast_to(ticks, size)
        if self._keeps_all:
            self._check_room(ticks, weights)
        self._buffer_rows()
        with self._unchanged_if_refused():
            self._buffer(values, weights, ticks, ids)

    @property
    def _most_value(self) -> float:
        most = self.config.max_value
        return math.inf if most is None else most

    def _buffer(
        self, values: FloatArray, weights: FloatArray, ticks: Int64Array, ids: UInt64Array | None
    ) -> None:
        size = ticks.size
        bits = values.view(np.int64)  # in the order of the values, for these are not negative
        if ids is None:
            coins = self._next_coins(bits, ticks)
        else:
            coins = chained(np.broadcast_to(ids, size), ticks, bits, weights.view(np.int64))
            self._by_id = True
        self._count(size)
        columns = [coins.view(np.int64), bits, weights.view(np.int64), ticks]
        newest = int(ticks.max())
        if not weights.all():
            counted = np.flatnonzero(weights)
            columns = [column[counted] for column in columns]
            weights, size = weights[counted], counted.size
        if size:
            least = int(exponents(weights.min(keepdims=True))[0])
            self._least = min(self._least or least, least)
        self._add(columns, newest, size)

    def _buffer_rows(self) -> None:
        while self._rows:  # given up run by run, when they are buffered: a decay may raise
            has_id, run = next(groupby(self._rows, key=lambda row: row[3] is not None))
            values, weights, ticks, ids = zip(*run, strict=True)
            hashes = hash_items(list(ids), self.config.seed, "id") if has_id else None
            with self._unchanged_if_refused():
                self._buffer(
                    np.array(values) + 0.0, np.array(weights) + 0.0, np.array(ticks), hashes
                )
            self._rows = self._rows[len(values) :]

    def _check_room(self, ticks: Int64Array, weights: FloatArray) -> None:
        """Refuse elements with which there would be more to keep than there is room for."""
        waiting = len(self._rows) + self._pending.size
        if self._sample.times.size + waiting + ticks.size <= self.config.capacity:
            return
        self._settle()
        newest = int(ticks.max())
        clock = newest if self._latest is None else max(self._latest, newest)
        kept = self._is_alive(self._sample.columns[1], clock).sum()
        self._check_number(int(kept + (self._is_alive(ticks, clock) & (weights > 0)).sum()))

    def _check_number(self, elements: int) -> None:
        if elements > self.config.capacity:
            raise ValueError(
                f"{self.config.decay} is kept exactly, every element that still counts: there "
                f"would be {elements}, and capacity is {self.config.capacity}"
            )

    def _is_alive(self, ticks: Int64Array, clock: int) -> BoolArray:
        """Whether elements still count, under a finite decay."""
        reach = self.config.decay.reach
        assert reach is not None
        alive: BoolArray = ticks > max(clock - reach, INT64_MIN)
        return alive

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        if self._keeps_all:
            return np.zeros(columns[0].size, dtype=np.int64)
        return levels_of_weights(columns[2].view(np.float64), columns[0].view(np.uint64))

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        return columns[2].view(np.float64), columns[3]

    def _elements(
        self, rows: Sequence[Int64Array], cutoff: Int64Array, key: int = 0
    ) -> tuple[Int64Array, Int64Array, Columns]:
        assert self._latest is not None
        keys = np.searchsorted(self._grid, rows[3], side="right") - 1
        levels = self._levels(rows)
        groups = group_of(keys, levels)
        kept = self._sample.may_be_kept(groups, rows[1])
        if self._keeps_all:
            kept &= self._is_alive(rows[3], self._latest)
        elements = groups, rows[1], self._further(rows, levels)
        return elements if kept.all() else take(np.flatnonzero(kept), *elements)

    def _work_in(self, columns: Sequence[Int64Array]) -> None:
        """Move to the buckets of the latest time, then take rows in."""
        ticks = columns[3]
        oldest = [int(each.min()) for each in (self._grid, ticks) if each.size]
        if oldest:
            assert self._latest is not None
            grid = self._regions.grid(min(oldest), self._latest)
            if self._keeps_all or not np.array_equal(grid, self._grid):
                placed = self._placed(grid, self._latest)
                self._sample, self._grid = LevelSample.merge([placed], _no_cutoff(grid)), grid
        super()._work_in(columns)

    def _placed(self, grid: Int64Array, clock: int) -> LevelSample:
        """The sample under the keys of other, larger buckets, without what no longer counts."""
        sample = self._sample.renamed(np.searchsorted(grid, self._grid, side="right") - 1)
        if not self._keeps_all:
            return sample
        return sample.only(np.flatnonzero(self._is_alive(sample.columns[1], clock)))

    def _cutoff(self) -> Int64Array:
        return _no_cutoff(self._grid)

    def _column(self, merge_levels: int = 0, stream: int = 0) -> Column:
        return SketchColumn(self, merge_levels, stream)

    # --- state ---

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = sketches[0].empty_like()
        for sketch in sketches:
            sketch._settle()
        clock = max(s._latest for s in sketches if s._latest is not None)
        oldest = [int(sketch._grid[0]) for sketch in sketches if sketch._grid.size]
        if oldest:
            merged._grid = merged._regions.grid(min(oldest), clock)
        samples = [sketch._placed(merged._grid, clock) for sketch in sketches]
        if merged._keeps_all:
            merged._check_number(sum(sample.times.size for sample in samples))
        merged._latest = clock
        merged._set_extra(cls._merged_extra([sketch._extra() for sketch in sketches]))
        merged._by_id = any(sketch._by_id for sketch in sketches)
        merged._sample = LevelSample.merge(samples, merged._cutoff())
        if not merged._keeps_all:
            cls._warn_of_shared_coins(sketches)
        return merged

    def _event_times(self) -> Int64Array:
        times: Int64Array = self._sample.columns[1]
        return times

    def _become(self, other: Self) -> None:
        super()._become(other)
        self._grid = other._grid

    @property
    def _used(self) -> Int64Array:
        """Keys of the buckets that anything was put into."""
        return np.unique(np.concatenate([self._sample.keys, self._sample.edge_keys]))

    def _samples(self) -> int:
        return self._used.size

    def _extra(self) -> tuple[int, ...]:
        self._buffer_rows()
        return *super()._extra(), self._least, self._samples()

    def _set_extra(self, extra: Sequence[int]) -> None:
        self._stream, self._index, self._least, _ = extra

    @classmethod
    def _merged_extra(cls, extras: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        coins = super()._merged_extra([each[:2] for each in extras])
        return *coins, min((each[2] for each in extras if each[2]), default=0), 0

    def _newest(self) -> int:
        """The largest value, since values take the place of times."""
        found = (self._sample.times, self._sample.edges)
        return max(int(each.max(initial=0)) for each in found)

    def _stored(self) -> LevelSample:
        """Buckets numbered from 0 on, and ages in the place of times."""
        numbers, used = np.zeros(self._grid.size, dtype=np.int64), self._used
        numbers[used] = np.arange(used.size)
        weights, times = self._sample.columns
        ages = ticks_between(times, self._latest or 0)
        return replace(self._sample.renamed(numbers), columns=(weights, ages))

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        super()._write(sketches, writer)
        seen = np.array([sketch._latest is not None for sketch in sketches])
        latest = np.array([sketch._latest or 0 for sketch in sketches])
        writer.ragged(zigzag(latest[seen]), seen.astype(np.int64))
        if sketches[0]._regions.is_one:
            return
        firsts = [sketch._grid[sketch._used] for sketch in sketches]
        counts = np.array([each.size for each in firsts])
        ages = ticks_between(np.concatenate(firsts), np.repeat(latest, counts))
        writer.ragged(ages, counts)

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        sketches = super()._read(prototype, reader)
        present = np.array([not sketch.is_empty for sketch in sketches], dtype=np.int64)
        latest = np.zeros(len(sketches), dtype=np.int64)
        latest[present > 0] = reader.signed(present)
        if (latest == INT64_MIN).any():
            corrupt(cls.__name__, "the latest time is out of range")
        counts = np.array([sketch._samples() for sketch in sketches])
        clocks, owners = np.repeat(latest, counts), np.repeat(np.arange(counts.size), counts)
        regions = prototype._regions
        firsts = np.full(clocks.size, INT64_MIN)
        if not regions.is_one:
            firsts = times_before(reader.ragged(counts), clocks, cls.__name__, INT64_MIN)
        in_order = (firsts[1:] > firsts[:-1]) | (owners[1:] > owners[:-1])
        if not in_order.all() or (firsts != regions.buckets(firsts, clocks)[0]).any():
            corrupt(cls.__name__, "a bucket that there is not")
        bounds = pairwise(offsets(counts).tolist())
        for sketch, clock, (begin, end) in zip(sketches, latest.tolist(), bounds, strict=True):
            sketch._take_back(clock, firsts[begin:end])
        return sketches

    def _take_back(self, clock: int, firsts: Int64Array) -> None:
        """Ages and buckets as they were read."""
        name = type(self).__name__
        if self._latest is not None:
            self._latest, self._grid = clock, firsts
        weights, ages = self._sample.columns
        times = times_before(ages, np.full(ages.size, clock), name)
        self._sample = replace(self._sample, columns=(weights, times))
        if (self._regions.buckets(times, clock)[0] != firsts[self._sample.keys]).any():
            corrupt(name, "an element that is in another bucket")
        if self._keeps_all and not self._is_alive(times, clock).all():
            corrupt(name, "an element that no longer counts")

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        sample, (_, index, least, buckets) = states.sample, states.extra
        weights = sample.columns[0]
        most = prototype.config.max_value
        most_bits = _order(np.finfo(np.float64).max if most is None else most)
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return "a weight out of range"
        for bits in (sample.times, sample.edges):
            if (bits < 0).any() or (bits > most_bits).any():
                return "a value out of range"
        above = sample.levels - (np.frexp(weights)[1] - 1)
        if prototype._keeps_all:
            if sample.levels.any() or sample.edges.size:
                return "a sample where all is kept"
        elif (above < 0).any() or (above > 54).any():
            return "a weight at a level that is not its own"
        if (buckets[~states.seen] > 0).any() or (index[~states.seen] > 0).any():
            return "elements where nothing was seen"
        owners = np.repeat(np.arange(buckets.size), buckets)
        used = np.unique(np.concatenate([sample.keys, sample.edge_keys]))
        if used.size < owners.size:
            return "an empty bucket"
        if (np.bincount(owners[sample.keys], minlength=index.size) > index).any():
            return "more elements than were seen"
        if (exponents(weights) < least[owners[sample.keys]]).any() or (
            (least == 0) & (buckets > 0)
        ).any():
            return "a weight below the least"
        highest = exponents(np.array([MOST_SUMMAND]))[0]
        known = least > 0
        if (least > highest).any() or (least[known] < EXPONENT_ZERO - 1074).any():
            return "weights out of range"
        if (known & (buckets == 0)).any() and not prototype._keeps_all:
            return "weights without elements"
        return None

    # --- questions ---

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """First and last ticks of the buckets that anything is in, oldest first."""
        self._settle()
        if self._latest is None:
            return []
        first, last = self._regions.buckets(self._grid[self._used], self._latest)
        return list(zip(first.tolist(), np.minimum(last, self._latest).tolist(), strict=True))

    @property
    def guarantee(self) -> float:
        """The relative error kept with probability ``confidence``; 0 where all is kept."""
        config = self.config
        if self._keeps_all:
            return 0.0
        root = math.sqrt(_inequality(config.decay, config.spread))
        error = config.relative_error
        with suppress(ValueError):
            if config.capacity == _usual_capacity(
                config.decay, error, config.confidence, config.spread
            ):
                return error
        kept = kept_relative_error(self._most_sampled, error / root, 1 - config.confidence, True)
        return root * kept

    @property
    def _most_sampled(self) -> int:
        """How many elements of a bucket answer, at most."""
        capacity = self.config.capacity
        root = (math.sqrt(_SURELY**2 + 8 * capacity) - _SURELY) / 2
        return max(math.floor(root**2), capacity)

    def query(self, threshold: float = 0, now: Time | None = None) -> Estimate:
        """The decayed sum of weights of elements whose value is at least ``threshold``."""
        number, tick = self._threshold(threshold), self._now(now)
        return self._asked(tick, lambda each: each.at_least(number))

    def count(self, threshold: float = 0, now: Time | None = None) -> Estimate:
        """The decayed number of such elements (of those with a weight).

        As good as ``query`` where all weights are equal. Otherwise light elements are rarely
        sampled: the interval knows the least weight, but there is no relative guarantee.
        """
        number, tick = self._threshold(threshold), self._now(now)
        self._buffer_rows()
        least = math.ldexp(1.0, self._least - EXPONENT_ZERO)
        return self._asked(tick, lambda each: each.at_least(number).counted(least))

    def range_sum(self, lo: float, hi: float, now: Time | None = None) -> Estimate:
        """The decayed sum of weights of elements with values from ``lo`` to ``hi``, both included.

        Within ``guarantee`` of the sum from ``lo`` *on*, not of itself: a difference of two sums.
        """
        low, high = self._threshold(lo, "lo"), self._threshold(hi, "hi")
        if low > high:
            raise ValueError(f"lo must not be above hi, got {low:g} and {high:g}")

        return self._asked(self._now(now), lambda each: each.between(low, high))

    def relative_frequency(self, value: float, now: Time | None = None) -> Estimate:
        """The share of a value in the decayed sum of all, in [0, 1]; within ``guarantee``."""
        number = self._threshold(value, "value")

        aged = self._aged(self._now(now))
        if aged is None:
            raise NoAnswerError("this question needs elements, and there are none")
        everything, sure = aged.at_least(0.0), self.config.confidence
        everything.check_sampled()
        others = everything.of(everything.values != number).sampled_total(sure)
        of_value = aged.between(number, number)
        is_certain = not everything.most
        answer = share(of_value.sampled_total(sure), others, is_certain)
        return self._estimate(answer, is_certain)

    def heavy_hitters(
        self, threshold: float, now: Time | None = None
    ) -> list[tuple[float, Estimate]]:
        """Values that may make up ``threshold``, and their decayed sums, largest first.

        ``threshold`` φ is a share of the whole in (0, 1), or a decayed sum (an int ≥ 1). With
        probability ``confidence`` each, a value that reaches it is returned, and one that is more
        than ``guarantee`` of the whole below it is not. That says nothing of thresholds below
        ``guarantee``: values that were never sampled are not known.
        """
        least, is_share = validate.share_or_count(threshold, "threshold")
        aged = self._aged(self._now(now))
        if aged is None:
            return []
        everything, sure = aged.at_least(0.0), self.config.confidence
        total = everything.total(sure)
        middle = (least * total[0] if is_share else least) - self.guarantee / 2 * total[0]
        if is_share:
            least *= total[1]
        values = np.unique(everything.values)
        values = values[everything.bounds_by_value(values, sure) >= least]
        answers = everything.totals_by_value(values, sure)
        estimates = (self._estimate(each, is_certain=not everything.most) for each in answers)
        return reaching(least, middle, values, estimates)

    def quantile(self, q: float, now: Time | None = None) -> Estimate:
        """The smallest value whose share, with all smaller ones, is at least ``q``.

        The share *above* a value is known with relative error: the rank of high quantiles is off
        by about twice ``guarantee`` · (1 − q), not by a part of the whole.
        """
        rank = validate.number(q, "q", 0, 1)
        aged = self._aged(self._now(now))
        if aged is None:
            raise NoAnswerError("a quantile needs elements, and there are none")
        everything, sure = aged.at_least(0.0), self.config.confidence
        everything.check_sampled()
        values = np.unique(self._sample.times).view(np.float64)

        def above(i: int) -> Triple:
            """The share of what is above the first i values."""
            limit = float(values[i - 1]) if i else -1.0
            upper = aged.above(limit) if i else everything
            below = everything.of(everything.values <= limit)
            return share(upper.sampled_total(sure), below.sampled_total(sure))

        def first(end: int, least: int) -> int:
            """The fewest values above which there is no more than 1 − q; one more if none are."""
            low, high = least, values.size + 1
            while low < high:
                middle = (low + high) // 2
                enough = above(middle)[end] <= (1 - rank) * (1 + 1e-12)
                low, high = (low, middle) if enough else (middle + 1, high)
            return low

        def value_of(i: int) -> float:
            if i == 0:
                return 0.0
            return float(values[i - 1]) if i <= values.size else self._most_value

        middle = min(first(0, 1), values.size)
        if not everything.most:
            return Estimate(value_of(middle), value_of(middle), value_of(middle))
        # A larger share above means a larger quantile, so ends are not turned around.
        lower, upper = min(first(1, 0), middle), max(first(2, 1), middle)
        return Estimate(value_of(middle), value_of(lower), value_of(upper), sure)

    def _threshold(self, value: object, name: str = "threshold") -> float:
        return validate.number(value, name, 0, self._most_value, exact=True) + 0.0

    def _aged(self, now: int) -> "_Aged | None":
        """The elements at a time; None if nothing was seen."""
        if self._latest is None:
            return None
        self._settle()
        _, last = self._regions.buckets(self._grid, self._latest)
        newest = np.minimum(last, self._latest)
        if self._places is None or self._places.sample is not self._sample:
            self._places = Places(self._sample, self._grid.size)
        config = self.config
        return _Aged(self._places, self._most_sampled, newest, config.decay, now, config.confidence)

    def _asked(self, now: int, chosen: Callable[["_Aged"], Weighed]) -> Estimate:
        """The decayed sum of the elements that are chosen."""
        aged = self._aged(now)
        if aged is None:
            return Estimate(0.0, 0.0, 0.0)
        elements = chosen(aged)
        return self._estimate(elements.total(self.config.confidence), not elements.most)

    def _estimate(self, answer: Triple, is_certain: bool) -> Estimate:
        value, lower, upper = map(float, answer)
        return Estimate(value, lower, upper, 1.0 if is_certain else self.config.confidence)

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        self._settle()
        return self._description(
            f"{self._index} events, {self._samples()} buckets, latest={self._latest}"
        )


@dataclass(frozen=True, eq=False)
class _Aged:
    """The elements of all buckets at one time."""

    places: Places
    most: int
    newest: Int64Array
    decay: Decay
    now: int
    confidence: float

    def at_least(self, threshold: float) -> Weighed:
        """Elements with values from a threshold on, as their buckets sample those."""
        return self._later_than(_order(threshold) - 1)

    def above(self, value: float) -> Weighed:
        """Elements with values above one."""
        return self._later_than(_order(value))

    def between(self, low: float, high: float) -> Weighed:
        """Those from a threshold on that are not above ``high``."""
        elements = self.at_least(low)
        return elements.of(elements.values <= high)

    def _later_than(self, order: int) -> Weighed:
        return by_value(
            self.places, self.most, order, self.newest, self.decay, self.now, self.confidence
        )


def _order(value: float) -> int:
    """What takes the place of a time: the bits of floats that are not negative are in order."""
    return int(np.array(value).view(np.int64))


def _inequality(decay: Decay, spread: float) -> float:
    """How many elements it takes to say as much as one, where they count unequally.

    Of elements that count between 1 and x, the sum has the relative variance (Σ f²)/(Σ f)², which
    is at most (x + 1)²/4x times that of equal ones (Kantorovich 1948).
    """
    x = 1.0 if isinstance(decay, NoDecay) else 1 + spread
    return (x + 1) ** 2 / (4 * x)


def _usual_capacity(decay: Decay, error: float, sure: float, spread: float) -> int:
    """Elements per level, so that as many as it takes are there.

    A question is answered from the largest sample of at most m elements, of which about half are at
    its lowest level: that more than m/2 + 5·√m/2 are is out of the question.
    """
    if isinstance(decay, FiniteExponential):
        return _KEPT
    root = math.sqrt(_inequality(decay, spread))
    try:
        sampled = capacity_for_count(error / root, 1 - sure, nested=True)
    except ValueError:
        raise ValueError(
            f"relative_error must be larger, got {error:g}: samples would be too large"
        ) from None
    return math.ceil((sampled + _SURELY * math.sqrt(sampled)) / 2)


def _no_cutoff(grid: Int64Array) -> Int64Array:
    """Values do not expire."""
    return np.full(max(grid.size, 1), INT64_MIN)
