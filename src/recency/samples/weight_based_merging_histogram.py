"""Decayed sums of elements above a threshold (Cormode, Tirthapura & Xu 2009, §3.2)."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from recency.algorithm import View
from recency.core import validate
from recency.core.level_sample import EXPONENT_ZERO
from recency.core.sizing import capacity_for_count, kept_relative_error
from recency.core.time_buckets import MOST_REGIONS, number_of_regions, regions_of
from recency.decay import Decay, FiniteExponential, NoDecay
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.questions import question, question_of_a_key
from recency.samples.algorithm import SampleAlgorithm
from recency.samples.bucket_retention import ByValue, KeepAll
from recency.samples.bucket_sample import AgedBuckets, Buckets
from recency.samples.converging import check_converging
from recency.samples.events import WeightLevels
from recency.samples.weighted import Triple, Weighed, reaching, share
from recency.samples.weighted_events import BucketElements, OneLevel, WeightedEvents
from recency.sketch import Sketch
from recency.timeunit import UNITS, Time

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
    window: ClassVar[None] = None


class WeightBasedMergingHistogram(Sketch):
    """Decayed correlated sums: Σ weight · f(age) of elements with value ≥ τ; the question gives τ.

    **Guarantee.** For a *converging* decay and any one threshold and time, the relative error is at
    most ``relative_error`` with probability ``confidence``, however small the part above the
    threshold is (Theorem 3.3). The answer is exact while no element above the threshold was
    discarded. ``count`` has an interval, and the same guarantee if all weights are equal. Questions
    that are answered by a difference of sums have larger errors: that of ``range_sum`` is relative
    to the sum from ``lo`` on, those of ``relative_frequency`` and ``heavy_hitters`` are relative to
    the sum of all elements.

    **Cost.** Elements are grouped by age into about 2·log(f(0)/f(oldest age))/log(1 + spread)
    buckets. Within a bucket, decay values differ by at most a factor of 1 + ``spread``. Each bucket
    is a sample with ``capacity`` elements per level, 2 360 at the defaults.

    **Merging** is exact. Sketches that are built separately and merged need different ``stream``
    numbers, or events with ids: otherwise equal events at equal positions share coins, and sampling
    errors add up instead of averaging out.

    **Time.** Events may arrive in any order; each counts at its own time. Time without events costs
    nothing.

    Parameters
    ----------
    decay
        A decay that is converging and not exponential: ``Polynomial``, ``NoDecay``, or a ``Custom``
        decay that declares it. Other decays are a ``ValueError``, since no small summary has
        relative errors for them (Theorems 4.1 to 4.3). The exception is ``FiniteExponential``: all
        elements that still count are kept (§4.4), at most ``capacity`` of them, and an update or
        merge that would exceed that raises a ``ValueError``.
    relative_error, confidence
        Error bound ε, and the least probability with which it holds. Both in (0, 1).
    max_value
        Values must be in [0, max_value]. None: no limit.
    spread
        Decay values within a bucket differ by at most a factor of 1 + ``spread``. None: 2, a factor
        of three.
    stream
        Stream number, from which events without an ``id`` draw their coins. Sketches that are
        built separately and merged later need different numbers.
    capacity
        Elements per level; None: as many as ``relative_error`` and ``confidence`` require.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

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

    def __init__(
        self,
        decay: Decay,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        *,
        max_value: float | None = None,
        spread: float | None = None,
        stream: int = 0,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        check_converging(decay)
        error = validate.fraction(relative_error, "relative_error")
        confidence = validate.confidence(confidence)
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
            capacity = _default_capacity(decay, error, confidence, spread)
        self.config = WeightBasedMergingHistogramConfig(
            decay,
            error,
            confidence,
            most,
            spread,
            validate.integer(capacity, "capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        super().__init__(_algorithm(self.config), stream)

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        return "capacity", "spread"

    def update(self, value: float, *, at: Time, weight: float = 1, id: Any = None) -> None:
        """Add an element at time ``at``.

        Parameters
        ----------
        value
            A number ≥ 0, at most ``max_value``, that thresholds are compared with.
        weight
            What is summed: a number ≥ 0. An element of weight 0 is ignored.
        id
            Identifies the event: integer, string or bytes. The coin is then a hash of id, time,
            value and weight, instead of the stream number and the position in the stream. Events
            with equal ids all count.
        """
        self._keyed.add_row(value, at, weight, id)

    def update_many(self, value: Any, *, at: Any, weight: Any = 1, id: Any = None) -> None:
        """Add one element per row; scalars are broadcast to the length of the arrays."""
        self._keyed.update_many(None, {"value": value, "at": at, "weight": weight, "id": id})

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """First and last tick of each bucket that is not empty, oldest first."""
        tally, body = self._keyed.state()
        used = np.union1d(body.sample.keys, body.sample.edge_keys)
        firsts = self._algorithm.retention.firsts(body)[used]
        first, last = self._algorithm.reading.regions.buckets(firsts, tally.latest[:1])
        return list(zip(first.tolist(), np.minimum(last, tally.latest).tolist(), strict=True))

    @question
    def query(view: View, threshold: float = 0, now: Time | None = None) -> Estimate:
        """Return the decayed sum of weights of elements whose value is at least ``threshold``.

        Parameters
        ----------
        threshold
            A number from 0 to ``max_value``.
        now
            The time at which age is 0. None: ``latest``.

        Raises
        ------
        ValueError
            If ``threshold`` is out of range, or ``now`` is before ``latest``.
        """
        number = _checked(view, threshold)
        return AgedBuckets(view, now).at_least(number).total(view.algorithm.confidence)

    @question
    def count(view: View, threshold: float = 0, now: Time | None = None) -> Estimate:
        """Return the decayed number of elements whose value is at least ``threshold``.

        Elements of weight 0 do not count. If all weights are equal the error bound is that of
        :meth:`query`. Otherwise elements of small weight are rarely sampled: the interval is
        computed from the smallest weight seen, and there is no relative guarantee.
        """
        number = _checked(view, threshold)
        least = np.ldexp(1.0, view.state.tally.least - EXPONENT_ZERO)
        elements = AgedBuckets(view, now).at_least(number).counted(least)
        return elements.total(view.algorithm.confidence)

    @question
    def range_sum(view: View, lo: float, hi: float, now: Time | None = None) -> Estimate:
        """Return the decayed sum of weights of elements with lo ≤ value ≤ hi.

        It is a difference of two sums. The error is at most ``guarantee`` times the sum of elements
        with value ≥ ``lo``, not times the answer.
        """
        low, high = _checked(view, lo, "lo"), _checked(view, hi, "hi")
        if low > high:
            raise ValueError(f"lo must not be above hi, got {low:g} and {high:g}")
        return AgedBuckets(view, now).between(low, high).total(view.algorithm.confidence)

    @question_of_a_key
    def relative_frequency(view: View, value: float, now: Time | None = None) -> Estimate:
        """Return the share, in [0, 1], of the decayed sum in elements with exactly this value.

        The absolute error is at most ``guarantee``. A share of nothing is a ``NoAnswerError``.
        """
        number, confidence = _checked(view, value, "value"), view.algorithm.confidence
        aged = AgedBuckets(view, now)
        if not view.state.tally.seen[0]:
            raise NoAnswerError("this question needs elements, and there are none")
        everything = aged.at_least(0.0).of_only_key()
        everything.check_sampled()
        others = everything.of(everything.values != number).sampled_total(confidence)
        of_value = aged.between(number, number).of_only_key().sampled_total(confidence)
        return _estimate(everything, share(of_value, others, not everything.most), confidence)

    @question_of_a_key
    def heavy_hitters(
        view: View, threshold: float, now: Time | None = None
    ) -> list[tuple[float, Estimate]]:
        """Return the values whose decayed sum may reach ``threshold``, largest first.

        ``threshold``, the list and its guarantee are as in :meth:`DecayedSample.frequent_items`.
        """
        least, is_share = validate.share_or_count(threshold, "threshold")
        confidence, error = view.algorithm.confidence, view.algorithm.promise()
        everything = AgedBuckets(view, now).at_least(0.0).of_only_key()
        total = everything.total(confidence)
        middle = (least * total[0] if is_share else least) - error / 2 * total[0]
        if is_share:
            least *= total[1]
        values = np.unique(everything.values)
        values = values[everything.bounds_by_value(values, confidence) >= least]
        answers = everything.totals_by_value(values, confidence)
        estimates = (_estimate(everything, each, confidence) for each in answers)
        return reaching(least, middle, values, estimates)

    @question_of_a_key
    def quantile(view: View, q: float, now: Time | None = None) -> Estimate:
        """Return the smallest value such that elements up to it have a share of at least ``q``.

        The share of elements *above* a value is known with a relative error. So the rank of a high
        quantile is off by about 2 · ``guarantee`` · (1 − q), instead of by a constant. A quantile
        of nothing is a ``NoAnswerError``.
        """
        rank, confidence = validate.number(q, "q", 0, 1), view.algorithm.confidence
        aged = AgedBuckets(view, now)
        if not view.state.tally.seen[0]:
            raise NoAnswerError("a quantile needs elements, and there are none")
        everything = aged.at_least(0.0).of_only_key()
        everything.check_sampled()
        values = np.unique(view.state.body.sample.times).view(np.float64)

        def above(i: int) -> Triple:
            """Return the share of the elements above the first i values."""
            limit = float(values[i - 1]) if i else -1.0
            upper = aged.above(limit).of_only_key() if i else everything
            below = everything.of(everything.values <= limit)
            return share(upper.sampled_total(confidence), below.sampled_total(confidence))

        def first(end: int, least: int) -> int:
            """Return the least i with above(i) ≤ 1 − q; if there is none, values.size + 1."""
            low, high = least, values.size + 1
            while low < high:
                middle = (low + high) // 2
                enough = above(middle)[end] <= (1 - rank) * (1 + 1e-12)
                low, high = (low, middle) if enough else (middle + 1, high)
            return low

        def value_of(i: int) -> float:
            if i == 0:
                return 0.0
            return float(values[i - 1] if i <= values.size else view.algorithm.reading.most_value)

        middle = min(first(0, 1), values.size)
        if not everything.most:
            return Estimate(value_of(middle), value_of(middle), value_of(middle))
        # A larger share above means a larger quantile, so ends are not turned around.
        lower, upper = min(first(1, 0), middle), max(first(2, 1), middle)
        return Estimate(value_of(middle), value_of(lower), value_of(upper), confidence)


def _algorithm(config: WeightBasedMergingHistogramConfig) -> SampleAlgorithm:
    """Buckets with samples by value or, for a finite decay, all elements."""
    decay, capacity = config.decay, config.capacity
    most_value = math.inf if config.max_value is None else config.max_value
    if isinstance(decay, FiniteExponential):
        regions = regions_of(NoDecay(), config.spread)
        retention: Any = KeepAll(BucketElements(OneLevel(), most_value), decay, capacity)
        promise = _everything
    else:
        regions = regions_of(decay, config.spread)
        retention = ByValue(BucketElements(WeightLevels("weight"), most_value), regions)
        promise = partial(_kept_error, config)
    return SampleAlgorithm(
        config,
        WeightedEvents(config.seed, config.unit, most_value),
        retention,
        promise,
        reading=Buckets(decay, regions, _most_sampled(capacity), most_value),
    )


def _everything() -> float:
    """Return 0: every element is kept, so there is no error."""
    return 0.0


def _checked(view: View, value: object, name: str = "threshold") -> float:
    """Return an argument as a float, if elements may have this value."""
    return validate.number(value, name, 0, view.algorithm.reading.most_value, exact=True) + 0.0


def _estimate(elements: Weighed, answer: Triple, confidence: float) -> Estimate:
    value, lower, upper = map(float, answer)
    return Estimate(value, lower, upper, confidence if elements.most else 1.0)


def _kept_error(config: WeightBasedMergingHistogramConfig) -> float:
    """Return the relative error that holds with probability ``confidence``."""
    error, confidence = config.relative_error, config.confidence
    root = math.sqrt(_inequality(config.decay, config.spread))
    with suppress(ValueError):
        if config.capacity == _default_capacity(config.decay, error, confidence, config.spread):
            return error
    return root * kept_relative_error(
        _most_sampled(config.capacity), error / root, 1 - confidence, True
    )


def _most_sampled(capacity: int) -> int:
    """Return the largest number of sampled elements from which a bucket answers."""
    root = (math.sqrt(_SURELY**2 + 8 * capacity) - _SURELY) / 2
    return max(math.floor(root**2), capacity)


def _inequality(decay: Decay, spread: float) -> float:
    """Return the factor by which unequal decay values within a bucket increase the variance.

    If decay values f lie between 1 and x, the relative variance (Σ f²)/(Σ f)² of the sum is at most
    (x + 1)²/4x times that for equal values (Kantorovich 1948). The sample must be larger by that.
    """
    x = 1.0 if isinstance(decay, NoDecay) else 1 + spread
    return (x + 1) ** 2 / (4 * x)


def _default_capacity(decay: Decay, error: float, confidence: float, spread: float) -> int:
    """Return the elements per level that a sample of the required size m needs.

    A question is answered from the largest sample of at most m elements. About half of them are at
    its lowest level: more than m/2 + 5·√m/2 would be five standard deviations off.
    """
    if isinstance(decay, FiniteExponential):
        return _KEPT
    root = math.sqrt(_inequality(decay, spread))
    try:
        sampled = capacity_for_count(error / root, 1 - confidence, nested=True)
    except ValueError:
        raise ValueError(
            f"relative_error must be larger, got {error:g}: samples would be too large"
        ) from None
    return math.ceil((sampled + _SURELY * math.sqrt(sampled)) / 2)
