"""Duplicate-insensitive samples under any decay (Cormode, Tirthapura & Xu 2009)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from recency.algorithm import View
from recency.core import validate
from recency.core.arrays import FloatArray
from recency.core.level_sample import EXPONENT_ZERO
from recency.core.sizing import capacity_for_count, doubt_per_copy, kept_relative_error
from recency.decay import Decay
from recency.estimate import Estimate
from recency.questions import question_of_a_key
from recency.samples.algorithm import Retention, SampleAlgorithm, matching
from recency.samples.decayed_reading import AnyDecay, Copies, OneDecay, Reading, check_decay
from recency.samples.retention import ByExpiry, ByTime
from recency.samples.weighted import Triple, Weighed, reaching
from recency.samples.weighted_tuples import WEIGHTS, TupleElements, Tuples
from recency.sketch import Sketch
from recency.timeunit import UNITS, Duration, Time, to_duration

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


class DecayedSample(Sketch):
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

    def __init__(
        self,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        decay: Decay | None = None,
        *,
        window: Duration | None = None,
        sampler: Literal["uniform", "range"] = "uniform",
        copies: int = 1,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        validate.one_of(sampler, "sampler", tuple(WEIGHTS))
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        width = None if window is None else to_duration(window, unit)
        if decay is not None:
            check_decay(decay, width)
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
        config = self.config
        kind = WEIGHTS[sampler]()
        elements = TupleElements(kind, config.copies)
        keeping: tuple[Retention, Reading]
        if decay is None:
            keeping = ByTime(elements, width, config.copies), AnyDecay(kind, width)
        else:
            keeping = ByExpiry(elements, kind, decay, config.copies), OneDecay(kind, decay)
        super().__init__(
            SampleAlgorithm(
                Tuples(config.seed, unit, kind, config.copies),
                elements,
                keeping[0],
                capacity=config.capacity,
                window=width,
                unit=unit,
                confidence=sure,
                promise=partial(
                    kept_relative_error, config.capacity, error, doubt, decay is not None
                ),
                reading=Copies(keeping[1], config.copies, sure, 1 - doubt),
            )
        )

    def update(self, value: float = 0, *, at: Time, weight: float = 1, id: Any = None) -> None:
        """See an element; ``weight`` ≥ 0, ``id`` int, str or bytes."""
        self._keyed.add_row(value, at, weight, id)

    def update_many(self, value: Any = 0, *, at: Any, weight: Any = 1, id: Any = None) -> None:
        """:meth:`update` for arrays; a scalar is broadcast to the length of the others."""
        self._keyed.update_many(None, {"value": value, "at": at, "weight": weight, "id": id})

    @question_of_a_key
    def query(
        view: View, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """The decayed sum of weights: Σ weight · decay(age).

        ``where`` gets the arrays of values and of weights, and returns which elements to count; the
        error is then relative to the sum of all.
        """
        return _answer(view, decay, now, lambda each, sure: _of(each, where).total(sure))

    @question_of_a_key
    def count(
        view: View, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """The decayed number of elements, Σ decay(age); without a relative guarantee.

        An element counts as often as it was likely to be missed. Where weights differ much, light
        ones are rarely seen, and the interval, which knows the least weight, is wide. With ranges
        and a decay that is fixed, elements count ⌊weight · decay⌋/weight each.
        """
        least = _least_weight(view)
        return _answer(
            view, decay, now, lambda each, sure: _of(each, where).counted(least).total(sure)
        )

    @question_of_a_key
    def mean(
        view: View, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """The decayed sum of weights over the decayed number of elements; no relative guarantee."""
        least = _least_weight(view)
        most = math.ldexp(1.0, int(view.state.tally.largest[0]) + 1 - EXPONENT_ZERO)

        def ratio(each: Weighed, sure: float) -> Triple:
            sure = (1 + sure) / 2  # that both hold
            chosen = _of(each, where)
            chosen.check_sampled()
            sums, counts = chosen.total(sure), chosen.counted(least).total(sure)
            if not each.most:
                mean = sums[0] / counts[0]
                return mean, mean, mean
            lower = max(sums[1] / counts[2], least)
            upper = min(sums[2] / counts[1], most) if counts[1] > 0 else most
            return min(max(sums[0] / counts[0], lower), upper), lower, upper

        return _answer(view, decay, now, ratio, needs_data=True)

    @question_of_a_key
    def selectivity(
        view: View, where: Where, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """The share, in [0, 1], of the decayed sum that matching elements make up."""
        return _share(view, where, decay, now)

    @question_of_a_key
    def rank(
        view: View, value: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """The share of the decayed sum in elements whose value does not exceed ``value``."""
        number = validate.number(value, "value", exact=True)
        return _share(view, lambda values, _: values <= number, decay, now)

    @question_of_a_key
    def quantile(
        view: View, q: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """The smallest value of rank ``q`` at least, by decayed weight."""
        rank = validate.number(q, "q", 0, 1)
        return _quantile(view, rank, decay, now)

    @question_of_a_key
    def median(view: View, decay: Decay | None = None, now: Time | None = None) -> Estimate:
        """The quantile 0.5."""
        return _quantile(view, 0.5, decay, now)

    @question_of_a_key
    def correlated_sum(
        view: View, threshold: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """The decayed sum of elements whose value is at least ``threshold``.

        Within ``guarantee`` of the sum of *all* elements (Theorem 3.2 of the paper on correlated
        aggregates).
        """
        number = validate.number(threshold, "threshold", exact=True)
        return _answer(
            view, decay, now, lambda each, sure: each.of(each.values >= number).total(sure)
        )

    @question_of_a_key
    def frequent_items(
        view: View, threshold: float, decay: Decay | None = None, now: Time | None = None
    ) -> list[tuple[float, Estimate]]:
        """Values that may weigh at least ``threshold``, and their decayed sums, largest first.

        ``threshold`` φ is a share of the whole in (0, 1), or a decayed sum (an int ≥ 1). With
        probability ``confidence`` each, a value that reaches it is returned, and one that is more
        than ``guarantee`` of the whole below it is not. That says nothing of thresholds below
        ``guarantee``: values that were never sampled are not known.
        """
        least, is_share = validate.share_or_count(threshold, "threshold")
        reading: Copies = view.algorithm.reading
        copies = reading.weighed(view, decay, now)
        if not copies:
            return []
        total, error = reading.answer(copies, Weighed.total), view.algorithm.promise()
        middle = (least * total.value if is_share else least) - error / 2 * total.value
        if is_share:
            least *= total.lower
        values = np.unique(np.concatenate([each.values for each in copies]))
        bounds = np.array([each.bounds_by_value(values, reading.of_each) for each in copies])
        close = values[np.median(bounds, axis=0) >= least] if values.size else values
        answers = zip(
            *(each.totals_by_value(close, reading.of_each) for each in copies), strict=True
        )
        estimates = (reading.middle(copies, list(each)) for each in answers)
        return reaching(least, middle, close, estimates)


def _answer(
    view: View,
    decay: Decay | None,
    now: Time | None,
    ask: Callable[[Weighed, float], Triple],
    needs_data: bool = False,
) -> Estimate:
    """The median of what the copies say."""
    reading: Copies = view.algorithm.reading
    return reading.answer(reading.weighed(view, decay, now), ask, needs_data)


def _share(view: View, where: Where, decay: Decay | None, now: Time | None) -> Estimate:
    def share(each: Weighed, sure: float) -> Triple:
        return each.share_of(matching(where, each.values, each.weights), sure)

    return _answer(view, decay, now, share, needs_data=True)


def _quantile(view: View, rank: float, decay: Decay | None, now: Time | None) -> Estimate:
    def value_at(each: Weighed, sure: float) -> Triple:
        return each.quantile(rank, sure)

    return _answer(view, decay, now, value_at, needs_data=True)


def _least_weight(view: View) -> float:
    """No element weighs less."""
    return math.ldexp(1.0, int(view.state.tally.least[0]) - EXPONENT_ZERO)


def _of(each: Weighed, where: Where | None) -> Weighed:
    return each if where is None else each.of(matching(where, each.values, each.weights))
