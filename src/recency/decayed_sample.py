"""Duplicate-insensitive samples under any decay (Cormode, Tirthapura & Xu 2009)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.column import Column, SketchColumn
from recency.core import validate
from recency.core.arrays import INT64_MAX, BoolArray, FloatArray, Int64Array, UInt64Array
from recency.core.codec import corrupt
from recency.core.fading import LEVELS_BELOW, Fading, RangeFading, before_the_end, stored_once
from recency.core.hashing import check_one, hash_chain, hash_items, xxh64
from recency.core.level_sample import (
    EXPONENT_ZERO,
    Columns,
    LevelSample,
    exponents,
)
from recency.core.range_sampling import MOST_TERMS
from recency.core.sample_states import CoinCodec, ColumnCodec, NumberCodec, SampleStates
from recency.core.samplers import LIMITS, SAMPLERS
from recency.core.sizing import capacity_for_count, doubt_per_copy, kept_relative_error
from recency.decay import Decay, Exponential, NoDecay, SlidingWindow, checked_decay
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.events import MOST_SUMMAND
from recency.sample_algorithm import matching
from recency.sample_sketch import SampleSketch
from recency.timeunit import UNITS, to_duration, to_tick, to_ticks
from recency.weighed import Triple, Weighed, by_expiry, by_time, reaching
from recency.windowed import Duration, Time

_NO_ID = 0x5BD1E995_9E3779B9  # in the place of the hash of an id
_MOST_COPIES = 99

Where = Callable[[FloatArray, FloatArray], Any]


@dataclass(frozen=True)
class DecayedSampleConfig:
    """Configuration of a decayed sample; ``window`` in ticks."""

    relative_error: float
    confidence: float
    decay: Decay | None
    window: int | None
    sampler: str
    copies: int
    capacity: int
    seed: int
    unit: str | None


class DecayedSample(SampleSketch):
    """Sums, shares, quantiles and frequent values in which events fade as they age.

    An element is the whole tuple (id, value, weight, time). **Equal tuples count once**, however
    often and in whatever order they come: give events an ``id`` unless value, weight and time tell
    them apart. Its weight decays with its age, and how is chosen *when a question is asked*: one
    sketch answers under sliding windows of any width, exponential, polynomial and all other decays.

    **Guarantee.** The decayed sum is within ``relative_error`` of the truth with probability
    ``confidence``, shares (``selectivity``, ``rank``) and ``correlated_sum`` within that fraction
    of the whole; exact while nothing in reach was discarded. ``count`` and ``mean`` have intervals,
    but no relative guarantee: light elements are rarely sampled.

    **Cost.** ``capacity`` is 1 677 elements per level at the defaults, about
    log₂(sum of weights / capacity) levels, some 16 bytes each.

    **Merging** is exact: the state is a function of the set of elements.

    **Time.** Late events count where they belong. An event at the time of the question has age 0.

    Parameters
    ----------
    relative_error, confidence
        In (0, 1).
    decay
        None to choose it in each question. With a decay here, elements are kept by when they fade
        out, and all questions use it: worth while if old heavy elements are to outlive recent
        light ones. ``capacity`` is then 3 301, and sums are as promised while they are at least
        capacity/2³² of the largest weight ever seen.
    window
        The largest age that matters, in ticks or as a duration (with ``unit``): decays must end
        before. None for no bound.
    sampler
        ``"uniform"``, or ``"range"``, the paper's own: weights are integers up to 2²⁰, and a decay
        given here is rounded down to whole weights, ⌊weight · decay⌋. It is slower, and its errors
        are about the same; it is there to compare. Where few heavy elements dominate, confidence
        above 0.95 needs ``copies``: hits of one range come in clusters.
    copies
        Odd number of independent samples, of which the median answers (§3.4); each may then be
        smaller.
    capacity
        Elements per level; None for what ``relative_error`` and ``confidence`` need.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import DecayedSample
    >>> from recency.decay import Exponential, SlidingWindow
    >>> sales = DecayedSample()
    >>> sales.update_many(at=range(50_000), weight=[2.5] * 50_000, id=range(50_000))
    >>> answer = sales.query(SlidingWindow(8_000))  # exact: 20,000
    >>> answer.lower <= 20_000 <= answer.upper
    True
    >>> round(float(sales.query(Exponential(half_life=1_000))), -2)  # exact: 3,608
    3600.0

    References
    ----------
    Cormode, Tirthapura & Xu, *Time-Decaying Sketches for Robust Aggregation of Sensor Data*, SIAM
    J. Computing 2009. For ``correlated_sum``: the same, *Time-Decayed Correlated Aggregates over
    Data Streams*, 2009, Theorem 3.2.
    """

    family = 8
    config: DecayedSampleConfig
    config_class = DecayedSampleConfig
    _distinct = True
    _pending_columns = 4  # hash, time, value, weight
    _level_range = (-1074 - LEVELS_BELOW, 1014)

    def __init__(
        self,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        decay: Decay | None = None,
        window: Duration | None = None,
        sampler: Literal["uniform", "range"] = "uniform",
        copies: int = 1,
        *,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        validate.one_of(sampler, "sampler", tuple(SAMPLERS))
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        width = None if window is None else to_duration(window, unit)
        if decay is not None:
            _check_decay(decay, width)
        if validate.integer(copies, "copies", 1, _MOST_COPIES) % 2 == 0:
            raise ValueError(f"copies must be odd, for there to be a median, got {copies}")
        doubt = doubt_per_copy(1 - sure, int(copies))
        self.config = DecayedSampleConfig(
            error,
            sure,
            decay,
            width,
            sampler,
            int(copies),
            capacity_for_count(error, doubt, nested=decay is not None)
            if capacity is None
            else validate.integer(capacity, "capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        self._start()

    def _start(self) -> None:
        self._looks_ahead = self.config.decay is not None
        self._sampler = SAMPLERS[self.config.sampler]
        self._has_ranges = self.config.sampler == "range"
        self._block = 4096 if self._looks_ahead else 1 << 13  # times the number of levels
        self._least, self._largest = 0, 0  # exponents of weights
        super()._start()

    def _samples(self) -> int:
        return self.config.copies

    def _codecs(self) -> Sequence[ColumnCodec]:
        return [CoinCodec(), NumberCodec(), NumberCodec()]

    def _kinds_of_columns(self) -> Sequence[Any]:
        kinds = super()._kinds_of_columns()
        return [*kinds, np.int64] if self._looks_ahead else kinds  # its time besides the expiry

    # --- update ---

    def update(self, value: float = 0, *, at: Time, weight: float = 1, id: Any = None) -> None:
        """See an element; ``weight`` ≥ 0, ``id`` int, str or bytes."""
        number = validate.number(value, "value", exact=True)
        heavy = (
            float(validate.integer(weight, "weight", 0, MOST_TERMS))
            if self._has_ranges
            else validate.number(weight, "weight", 0, MOST_SUMMAND)
        )
        if id is not None:
            check_one(id, "id")
        tick = to_tick(at, self.config.unit)
        self._add_row((number, tick, heavy, id), tick)

    def update_many(self, value: Any = 0, *, at: Any, weight: Any = 1, id: Any = None) -> None:
        """:meth:`update` for arrays; a scalar goes with all elements of the others."""
        rows = self._checked(value, at, weight, id)
        if rows[1].size:
            self._buffer_rows()
            with self._unchanged_if_refused():
                self._buffer(*rows)

    def _checked(
        self,
        value: Any = 0,
        at: Any = None,
        weight: Any = 1,
        id: Any = None,
        size: int | None = None,
    ) -> tuple[FloatArray, Int64Array, FloatArray, UInt64Array]:
        """Values, times, weights and hashes of ids, one for each row."""
        values = validate.numbers(value, "value", exact=True)
        weights = (
            validate.integers(weight, "weight", 0, MOST_TERMS).astype(np.float64)
            if self._has_ranges
            else validate.numbers(weight, "weight", 0, MOST_SUMMAND)
        )
        ticks = to_ticks(at, self.config.unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "weight": weights, "at": ticks}
        ids = self._hashed_ids(id, columns)
        if ids is None:
            ids = np.full(1, _NO_ID, dtype=np.uint64)
        if size is None:
            size = validate.common_length(columns)
        return (
            np.broadcast_to(values, size) + 0.0,  # a copy, in which zero has one sign
            np.broadcast_to(ticks, size),
            np.broadcast_to(weights, size) + 0.0,
            np.broadcast_to(ids, size),
        )

    def _hashes(
        self, values: FloatArray, ticks: Int64Array, weights: FloatArray, ids: UInt64Array
    ) -> Int64Array:
        # Ids are hashes already, or one number for all: adding the time confuses nothing.
        who_and_when = ids.view(np.int64) + ticks * np.int64(0x1E3779B97F4A7C15)
        hashes = hash_chain(
            self.config.seed, who_and_when, values.view(np.int64), weights.view(np.int64)
        )
        return hashes.view(np.int64)

    def _buffer(
        self, values: FloatArray, ticks: Int64Array, weights: FloatArray, ids: UInt64Array
    ) -> None:
        newest = int(ticks.max())
        if not weights.all():
            kept = np.flatnonzero(weights)
            values, ticks, weights, ids = values[kept], ticks[kept], weights[kept], ids[kept]
        if weights.size:
            least, largest = exponents(np.array([weights.min(), weights.max()])).tolist()
            self._least = min(self._least or least, least)
            self._largest = max(self._largest, largest)
        hashes = self._hashes(values, ticks, weights, ids)
        columns = [hashes, ticks, values.view(np.int64), weights.view(np.int64)]
        self._add(columns, newest, weights.size)

    def _buffer_rows(self) -> None:
        if self._rows:
            values, ticks, weights, ids = zip(*self._rows, strict=True)
            hashes = np.full(len(ids), _NO_ID, dtype=np.uint64)
            known = [i for i, id in enumerate(ids) if id is not None]
            if known:
                hashes[known] = hash_items([ids[i] for i in known], self.config.seed, "id")
            self._buffer(np.array(values) + 0.0, np.array(ticks), np.array(weights) + 0.0, hashes)
            self._rows = []

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        return self._sampler.levels(columns[3].view(np.float64), _coins(columns[0]))

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        # The coin, of which levels are made, is identity enough.
        hashes, _, values, weights = columns
        return _coins(hashes), values.view(np.float64), weights.view(np.float64)

    def _elements(
        self, rows: Sequence[Int64Array], cutoff: Int64Array, key: int = 0
    ) -> tuple[Int64Array, Int64Array, Columns]:
        blocks = []
        for copy in range(self.config.copies):
            hashes, *others = rows
            if copy:
                hashes = xxh64(hashes.view(np.uint64), copy).view(np.int64)
            if self._looks_ahead:
                columns = (*self._further([hashes, *others], hashes), others[0])
                blocks.append(self._fading().placed(self._sample, copy, columns))
            else:
                blocks.append(super()._elements([hashes, *others], cutoff, copy))
        if len(blocks) == 1:
            return blocks[0]
        groups, times, further = zip(*blocks, strict=True)
        columns = tuple(np.concatenate(column) for column in zip(*further, strict=True))
        return np.concatenate(groups), np.concatenate(times), columns

    def _cutoff(self) -> Int64Array:
        if self._looks_ahead:
            return np.full(self.config.copies, self._fading().clock)
        return np.repeat(super()._cutoff(), self.config.copies)

    def _fading(self) -> Fading:
        decay, latest = self.config.decay, self._latest
        assert decay is not None
        assert latest is not None
        if self._has_ranges:
            return RangeFading(decay, 0, before_the_end(latest))
        bottom = self._largest - EXPONENT_ZERO - LEVELS_BELOW
        return Fading(decay, bottom, before_the_end(latest))

    def _pruned(self, sample: LevelSample) -> LevelSample:
        return self._fading().pruned(sample) if self._looks_ahead else sample

    # --- many at once ---

    def _column(self, merge_levels: int = 0, stream: int = 0) -> Column:
        if self._looks_ahead or self.config.copies > 1:
            return SketchColumn(self, merge_levels, stream)
        return super()._column(merge_levels, stream)

    def _rows_for_column(
        self, numbers: Int64Array, arguments: Mapping[str, Any], extra: Sequence[Int64Array]
    ) -> tuple[Int64Array, list[NDArray[Any]], BoolArray | None]:
        values, ticks, weights, ids = self._checked(**arguments, size=numbers.size)
        counted = weights > 0
        found, owners = exponents(weights[counted]), numbers[counted]
        least, largest = extra
        unknown = np.iinfo(np.int64).max
        least[least == 0] = unknown
        np.minimum.at(least, owners, found)
        least[least == unknown] = 0
        np.maximum.at(largest, owners, found)
        hashes = self._hashes(values, ticks, weights, ids)
        columns: list[NDArray[Any]] = [hashes, values.view(np.int64), weights.view(np.int64)]
        return ticks, columns, None if counted.all() else counted

    def _extra_of_column(self, first: int, size: int) -> list[Int64Array]:
        return [np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)]

    # --- state ---

    def _extra(self) -> tuple[int, ...]:
        self._buffer_rows()
        return self._least, self._largest

    def _set_extra(self, extra: Sequence[int]) -> None:
        self._least, self._largest = extra

    @classmethod
    def _merged_extra(cls, extras: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        least, largest = zip(*extras, strict=True)
        return min((each for each in least if each), default=0), max(largest)

    def _stored(self) -> LevelSample:
        return stored_once(self._sample, self._sampler) if self._looks_ahead else self._sample

    def _restore(self, sample: LevelSample) -> None:
        if self._looks_ahead and self._latest is not None:
            self._sample = self._fading().restored(sample, self.config.copies)
            flaw = self._sample.flaw(self._cutoff())
            if flaw:
                corrupt(type(self).__name__, flaw)
        elif not self._looks_ahead:
            self._sample = sample

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        sample = states.sample
        coins, _, weights = sample.columns
        copies = prototype.config.copies
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return "a weight out of range"
        if prototype._has_ranges:
            if ((weights > MOST_TERMS) | (weights % 1 != 0)).any():
                return "a weight that has no range"
            if ((sample.edge_levels < 0) | (sample.edge_levels > LIMITS.size - 2)).any():
                return "a level that ranges do not have"
        if (prototype._sampler.levels(weights, coins) != sample.levels).any():
            return "an element at a level that is not its own"
        least, largest = states.extra
        found, owners = exponents(weights), sample.keys // copies
        if (found < least[owners]).any() or (found > largest[owners]).any():
            return "a weight beyond the least and the largest"
        if (least > largest).any() or ((least == 0) != (largest == 0)).any():
            return "weights out of order"
        if (largest > exponents(np.array([MOST_SUMMAND]))[0]).any() or (
            (largest > 0) & (least < EXPONENT_ZERO - 1074)
        ).any():
            return "weights out of range"
        edge_owners = sample.edge_keys // copies
        if (largest[~states.seen] > 0).any() or (largest[edge_owners] == 0).any():
            return "weights where nothing was seen"
        if prototype._looks_ahead:
            bottom = largest[edge_owners] - EXPONENT_ZERO - LEVELS_BELOW
            if not prototype._has_ranges and (sample.edge_levels < bottom).any():
                return "a level below the lowest"
            if (sample.edges <= np.minimum(states.latest, INT64_MAX - 1)[edge_owners]).any():
                return "an edge that has expired"
            if (np.diff(sample.edge_groups) <= 0).any():
                return "levels out of order"
        return None

    # --- questions ---

    @property
    def guarantee(self) -> float:
        """The relative error of sums kept with probability ``confidence``."""
        config = self.config
        doubt = doubt_per_copy(1 - config.confidence, config.copies)
        return kept_relative_error(config.capacity, config.relative_error, doubt, self._looks_ahead)

    def query(
        self, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """The decayed sum of weights: Σ weight · decay(age).

        ``where`` gets the arrays of values and of weights, and returns which elements to count; the
        error is then relative to the sum of all.
        """
        return self._answer(decay, now, lambda each, sure: _of(each, where).total(sure))

    def count(
        self, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """The decayed number of elements, Σ decay(age); without a relative guarantee.

        An element counts as often as it was likely to be missed. Where weights differ much, light
        ones are rarely seen, and the interval, which knows the least weight, is wide. With ranges
        and a decay that is fixed, elements count ⌊weight · decay⌋/weight each.
        """
        return self._answer(decay, now, lambda each, sure: self._counted(each, where).total(sure))

    def mean(
        self, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """The decayed sum of weights over the decayed number of elements; no relative guarantee."""

        def ratio(each: Weighed, sure: float) -> Triple:
            sure = (1 + sure) / 2  # that both hold
            chosen = _of(each, where)
            chosen.check_sampled()
            sums, counts = chosen.total(sure), self._counted(chosen, None).total(sure)
            if not each.most:
                mean = sums[0] / counts[0]
                return mean, mean, mean
            least, most = (2.0 ** (x - EXPONENT_ZERO) for x in (self._least, self._largest + 1))
            lower = max(sums[1] / counts[2], least)
            upper = min(sums[2] / counts[1], most) if counts[1] > 0 else most
            return min(max(sums[0] / counts[0], lower), upper), lower, upper

        return self._answer(decay, now, ratio, needs_data=True)

    def selectivity(
        self, where: Where, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """The share, in [0, 1], of the decayed sum that matching elements make up."""

        def share(each: Weighed, sure: float) -> Triple:
            return each.share_of(matching(where, each.values, each.weights), sure)

        return self._answer(decay, now, share, needs_data=True)

    def rank(self, value: float, decay: Decay | None = None, now: Time | None = None) -> Estimate:
        """The share of the decayed sum in elements whose value does not exceed ``value``."""
        number = validate.number(value, "value", exact=True)
        return self.selectivity(lambda values, _: values <= number, decay, now)

    def quantile(self, q: float, decay: Decay | None = None, now: Time | None = None) -> Estimate:
        """The smallest value of rank ``q`` at least, by decayed weight."""
        rank = validate.number(q, "q", 0, 1)

        def value_at(each: Weighed, sure: float) -> Triple:
            return each.quantile(rank, sure)

        return self._answer(decay, now, value_at, needs_data=True)

    def median(self, decay: Decay | None = None, now: Time | None = None) -> Estimate:
        """The quantile 0.5."""
        return self.quantile(0.5, decay, now)

    def correlated_sum(
        self, threshold: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """The decayed sum of elements whose value is at least ``threshold``.

        Within ``guarantee`` of the sum of *all* elements (Theorem 3.2 of the paper on correlated
        aggregates).
        """
        number = validate.number(threshold, "threshold", exact=True)
        return self.query(decay, now, lambda values, _: values >= number)

    def frequent_items(
        self, threshold: float, decay: Decay | None = None, now: Time | None = None
    ) -> list[tuple[float, Estimate]]:
        """Values that may weigh at least ``threshold``, and their decayed sums, largest first.

        ``threshold`` φ is a share of the whole in (0, 1), or a decayed sum (an int ≥ 1). With
        probability ``confidence`` each, a value that reaches it is returned, and one that is more
        than ``guarantee`` of the whole below it is not. That says nothing of thresholds below
        ``guarantee``: values that were never sampled are not known.
        """
        least, is_share = validate.share_or_count(threshold, "threshold")
        copies = self._weighed(decay, now)
        if not copies:
            return []
        total = self._median(copies, Weighed.total)
        middle = (least * total.value if is_share else least) - self.guarantee / 2 * total.value
        if is_share:
            least *= total.lower
        values = np.unique(np.concatenate([each.values for each in copies]))
        bounds = np.array([each.bounds_by_value(values, self._sure()) for each in copies])
        close = values[np.median(bounds, axis=0) >= least] if values.size else values
        answers = zip(*(each.totals_by_value(close, self._sure()) for each in copies), strict=True)
        estimates = (self._middle(copies, list(each)) for each in answers)
        return reaching(least, middle, close, estimates)

    def _counted(self, each: Weighed, where: Where | None) -> Weighed:
        return _of(each, where).counted(math.ldexp(1.0, self._least - EXPONENT_ZERO))

    def _sure(self) -> float:
        """The confidence of each copy."""
        return 1 - doubt_per_copy(1 - self.config.confidence, self.config.copies)

    def _answer(
        self,
        decay: Decay | None,
        now: Time | None,
        ask: Callable[[Weighed, float], Triple],
        needs_data: bool = False,
    ) -> Estimate:
        """The median of what the copies say."""
        copies = self._weighed(decay, now)
        if not copies:
            if needs_data:
                raise NoAnswerError("this question needs elements, and there are none")
            return Estimate(0.0, 0.0, 0.0)
        return self._median(copies, ask)

    def _median(
        self, copies: Sequence[Weighed], ask: Callable[[Weighed, float], Triple]
    ) -> Estimate:
        answers, nothing = [], None
        for each in copies:
            try:
                answers.append(ask(each, self._sure()))
            except NoAnswerError as error:
                nothing = error
        if nothing is not None and not answers:
            raise nothing
        return self._middle(copies, answers)

    def _middle(self, copies: Sequence[Weighed], answers: Sequence[Triple]) -> Estimate:
        # Some copies may have no answer. Of an even number, the lower of both in the middle: it is
        # a value of the stream where the question asks for one.
        in_order, middle = np.sort(answers, axis=0), (len(answers) - 1) // 2
        value, lower = (float(x) for x in in_order[middle, :2])
        upper = float(in_order[len(answers) // 2, 2])
        is_certain = not any(each.most for each in copies)
        return Estimate(value, lower, upper, 1.0 if is_certain else self.config.confidence)

    def _weighed(self, decay: Decay | None, now: Time | None) -> list[Weighed]:
        """The elements of each copy under a decay; none if nothing was seen."""
        decay, tick = self._chosen(decay), self._now(now)
        if self._latest is None:
            return []
        self._settle()
        several = self.config.copies > 1
        samples = [
            self._sample.at(copy) if several else self._sample for copy in range(self.config.copies)
        ]
        if self._looks_ahead:
            return [self._faded(each, decay, tick, self._latest) for each in samples]
        return [by_time(each, self._sampler, decay, tick) for each in samples]

    def _faded(self, sample: LevelSample, decay: Decay, now: int, latest: int) -> Weighed:
        bottom = self._fading().bottom
        weighed = by_expiry(sample, self._sampler, decay, now, latest, bottom)
        if isinstance(decay, Exponential) and weighed.most and not weighed.shares.any():
            # All have sunk below the levels that are kept. They sink together: at the latest time
            # they were as heavy, compared with each other, as now.
            then = by_expiry(sample, self._sampler, decay, latest, latest, bottom)
            if not self._has_ranges:
                return then.times(float(decay.at(np.array([float(now - latest)]))[0]))
        return weighed

    def _chosen(self, decay: Decay | None) -> Decay:
        config = self.config
        if config.decay is not None:
            if decay is not None and decay != config.decay:
                raise ValueError(
                    f"decay must be left out, or {config.decay}: elements were kept for it alone"
                )
            return config.decay
        if decay is None:
            return NoDecay() if config.window is None else SlidingWindow(config.window)
        _check_decay(decay, config.window)
        return decay

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        if not self.is_empty:
            self._settle()
        return self._description(
            f"{self._stored().times.size} elements kept, latest={self._latest}"
        )


def _check_decay(given: object, window: int | None) -> None:
    decay = checked_decay(given)
    if window is not None and (decay.reach is None or decay.reach > window):
        raise ValueError(f"decay must not reach beyond the window of {window} ticks, got {decay}")


def _coins(hashes: Int64Array) -> UInt64Array:
    return hashes.view(np.uint64) >> np.uint64(11)


def _of(each: Weighed, where: Where | None) -> Weighed:
    return each if where is None else each.of(matching(where, each.values, each.weights))
