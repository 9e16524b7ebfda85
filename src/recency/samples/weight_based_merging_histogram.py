"""Decayed sums of elements above a threshold (Cormode, Tirthapura & Xu 2009, §3.2)."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

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
from recency.samples.coins import check_shared
from recency.samples.converging import check_converging
from recency.samples.events import WeightLevels
from recency.samples.weighted import Triple, Weighed, reaching, share
from recency.samples.weighted_events import OneLevel, ValueElements, WeightedEvents
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


class WeightBasedMergingHistogram(Sketch):
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
    spread
        How much the decay may differ within a bucket; None for 2, a factor of three.
    stream
        Tells apart sketches that are built side by side and merged later.
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
            capacity = _default_capacity(decay, error, sure, spread)
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
        super().__init__(_algorithm(self.config), stream)

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        return "capacity", "spread"

    def update(self, value: float, *, at: Time, weight: float = 1, id: Any = None) -> None:
        """See an element; ``weight`` ≥ 0; ``id`` (int, str or bytes), if given, makes the coin."""
        self._keyed.add_row(value, at, weight, id)

    def update_many(self, value: Any, *, at: Any, weight: Any = 1, id: Any = None) -> None:
        """:meth:`update` for arrays; a scalar is broadcast to the length of the others."""
        self._keyed.update_many(None, {"value": value, "at": at, "weight": weight, "id": id})

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """First and last ticks of the buckets that anything is in, oldest first."""
        tally, body = self._keyed.state()
        used = np.union1d(body.sample.keys, body.sample.edge_keys)
        firsts = self._algorithm.retention.firsts(body)[used]
        first, last = self._algorithm.reading.regions.buckets(firsts, tally.latest[:1])
        return list(zip(first.tolist(), np.minimum(last, tally.latest).tolist(), strict=True))

    @question
    def query(view: View, threshold: float = 0, now: Time | None = None) -> Estimate:
        """The decayed sum of weights of elements whose value is at least ``threshold``."""
        number = _checked(view, threshold)
        return AgedBuckets(view, now).at_least(number).total(view.algorithm.confidence)

    @question
    def count(view: View, threshold: float = 0, now: Time | None = None) -> Estimate:
        """The decayed number of such elements (of those with a weight).

        As good as ``query`` where all weights are equal. Otherwise light elements are rarely
        sampled: the interval knows the least weight, but there is no relative guarantee.
        """
        number = _checked(view, threshold)
        least = np.ldexp(1.0, view.state.tally.least - EXPONENT_ZERO)
        elements = AgedBuckets(view, now).at_least(number).counted(least)
        return elements.total(view.algorithm.confidence)

    @question
    def range_sum(view: View, lo: float, hi: float, now: Time | None = None) -> Estimate:
        """The decayed sum of weights of elements with values from ``lo`` to ``hi``, both included.

        Within ``guarantee`` of the sum from ``lo`` *on*, not of itself: a difference of two sums.
        """
        low, high = _checked(view, lo, "lo"), _checked(view, hi, "hi")
        if low > high:
            raise ValueError(f"lo must not be above hi, got {low:g} and {high:g}")
        return AgedBuckets(view, now).between(low, high).total(view.algorithm.confidence)

    @question_of_a_key
    def relative_frequency(view: View, value: float, now: Time | None = None) -> Estimate:
        """The share of a value in the decayed sum of all, in [0, 1]; within ``guarantee``."""
        number, sure = _checked(view, value, "value"), view.algorithm.confidence
        aged = AgedBuckets(view, now)
        if not view.state.tally.seen[0]:
            raise NoAnswerError("this question needs elements, and there are none")
        everything = aged.at_least(0.0).of_only_key()
        everything.check_sampled()
        others = everything.of(everything.values != number).sampled_total(sure)
        of_value = aged.between(number, number).of_only_key().sampled_total(sure)
        return _estimate(everything, share(of_value, others, not everything.most), sure)

    @question_of_a_key
    def heavy_hitters(
        view: View, threshold: float, now: Time | None = None
    ) -> list[tuple[float, Estimate]]:
        """Values that may make up ``threshold``, and their decayed sums, largest first.

        ``threshold`` φ is a share of the whole in (0, 1), or a decayed sum (an int ≥ 1). With
        probability ``confidence`` each, a value that reaches it is returned, and one that is more
        than ``guarantee`` of the whole below it is not. That says nothing of thresholds below
        ``guarantee``: values that were never sampled are not known.
        """
        least, is_share = validate.share_or_count(threshold, "threshold")
        sure, error = view.algorithm.confidence, view.algorithm.promise()
        everything = AgedBuckets(view, now).at_least(0.0).of_only_key()
        total = everything.total(sure)
        middle = (least * total[0] if is_share else least) - error / 2 * total[0]
        if is_share:
            least *= total[1]
        values = np.unique(everything.values)
        values = values[everything.bounds_by_value(values, sure) >= least]
        answers = everything.totals_by_value(values, sure)
        estimates = (_estimate(everything, each, sure) for each in answers)
        return reaching(least, middle, values, estimates)

    @question_of_a_key
    def quantile(view: View, q: float, now: Time | None = None) -> Estimate:
        """The smallest value whose share, with all smaller ones, is at least ``q``.

        The share *above* a value is known with relative error: the rank of high quantiles is off
        by about twice ``guarantee`` · (1 − q), not by a part of the whole.
        """
        rank, sure = validate.number(q, "q", 0, 1), view.algorithm.confidence
        aged = AgedBuckets(view, now)
        if not view.state.tally.seen[0]:
            raise NoAnswerError("a quantile needs elements, and there are none")
        everything = aged.at_least(0.0).of_only_key()
        everything.check_sampled()
        values = np.unique(view.state.body.sample.times).view(np.float64)

        def above(i: int) -> Triple:
            """The share of what is above the first i values."""
            limit = float(values[i - 1]) if i else -1.0
            upper = aged.above(limit).of_only_key() if i else everything
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
            return float(values[i - 1] if i <= values.size else view.algorithm.reading.most_value)

        middle = min(first(0, 1), values.size)
        if not everything.most:
            return Estimate(value_of(middle), value_of(middle), value_of(middle))
        # A larger share above means a larger quantile, so ends are not turned around.
        lower, upper = min(first(1, 0), middle), max(first(2, 1), middle)
        return Estimate(value_of(middle), value_of(lower), value_of(upper), sure)


def _algorithm(config: WeightBasedMergingHistogramConfig) -> SampleAlgorithm:
    """Samples by value in buckets; or, under a finite decay, everything."""
    decay, capacity = config.decay, config.capacity
    most_value = math.inf if config.max_value is None else config.max_value
    if isinstance(decay, FiniteExponential):
        regions = regions_of(NoDecay(), config.spread)
        elements = ValueElements(OneLevel(), most_value)
        retention: Any = KeepAll(elements, decay, capacity)
        promise, check_merge = _everything, _any_coins
    else:
        regions = regions_of(decay, config.spread)
        elements = ValueElements(WeightLevels("weight"), most_value)
        retention = ByValue(elements, regions)
        promise, check_merge = partial(_kept_error, config), check_shared
    return SampleAlgorithm(
        WeightedEvents(config.seed, config.unit, most_value, check_merge),
        elements,
        retention,
        capacity=capacity,
        window=None,
        unit=config.unit,
        confidence=config.confidence,
        promise=promise,
        reading=Buckets(decay, regions, _most_sampled(capacity), most_value),
    )


def _everything() -> float:
    """All is kept, so there is no error."""
    return 0.0


def _any_coins(*_: Any) -> None:
    """Nothing is sampled, so nobody asks for coins."""


def _checked(view: View, value: object, name: str = "threshold") -> float:
    """A value that elements may have."""
    return validate.number(value, name, 0, view.algorithm.reading.most_value, exact=True) + 0.0


def _estimate(elements: Weighed, answer: Triple, confidence: float) -> Estimate:
    value, lower, upper = map(float, answer)
    return Estimate(value, lower, upper, confidence if elements.most else 1.0)


def _kept_error(config: WeightBasedMergingHistogramConfig) -> float:
    """The relative error kept with probability ``confidence``."""
    error, sure = config.relative_error, config.confidence
    root = math.sqrt(_inequality(config.decay, config.spread))
    with suppress(ValueError):
        if config.capacity == _default_capacity(config.decay, error, sure, config.spread):
            return error
    return root * kept_relative_error(_most_sampled(config.capacity), error / root, 1 - sure, True)


def _most_sampled(capacity: int) -> int:
    """How many elements of a bucket answer, at most."""
    root = (math.sqrt(_SURELY**2 + 8 * capacity) - _SURELY) / 2
    return max(math.floor(root**2), capacity)


def _inequality(decay: Decay, spread: float) -> float:
    """How many elements it takes to say as much as one, where they count unequally.

    Of elements that count between 1 and x, the sum has the relative variance (Σ f²)/(Σ f)², which
    is at most (x + 1)²/4x times that of equal ones (Kantorovich 1948).
    """
    x = 1.0 if isinstance(decay, NoDecay) else 1 + spread
    return (x + 1) ** 2 / (4 * x)


def _default_capacity(decay: Decay, error: float, sure: float, spread: float) -> int:
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
