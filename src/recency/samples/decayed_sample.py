"""Decayed sample: duplicate-insensitive, under any decay (Cormode, Tirthapura & Xu 2009)."""

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
from recency.core.sizing import capacity_for_count, failure_per_copy, kept_relative_error
from recency.decay import Decay
from recency.estimate import Estimate
from recency.questions import question_of_a_key
from recency.samples.algorithm import Retention, SampleAlgorithm, matching
from recency.samples.decayed_reading import AnyDecay, Copies, OneDecay, Reading, check_decay
from recency.samples.retention import ByExpiry, ByTime
from recency.samples.weighted import Triple, Weighed, reaching
from recency.samples.weighted_tuples import WEIGHTS, TupleElements, Tuples
from recency.sketch import Sketch
from recency.timeunit import Duration, Time, largest_window

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
    """Sums, shares, quantiles and frequent values of events that count less as they age.

    An element is the whole tuple (id, value, weight, time). **Equal tuples count once**, however
    often and in whatever order they arrive, so give events an ``id`` if several of them may have
    the same value, weight and time. An element of age a counts weight · decay(a). The decay is
    chosen *in the question*: the same sketch answers under sliding windows of any width and under
    exponential, polynomial and all other decays.

    **Guarantee.** With probability ``confidence``, the relative error of a decayed sum is at most
    ``relative_error`` (ε). The error of a share (``selectivity``, ``rank``) is at most ε, and that
    of ``correlated_sum`` at most ε times the sum of all elements. Answers are exact while no
    element that still counts was discarded. ``count`` and ``mean`` have intervals but no relative
    guarantee, since elements of small weight are rarely sampled.

    **Cost.** ``capacity`` is 1 677 elements per level at the defaults, in about
    log₂(sum of weights / capacity) levels. An element takes some 16 bytes.

    **Merging** is exact: the state depends only on the set of elements.

    **Time.** Events may arrive in any order; each counts at its own time. An event at the time of
    the question has age 0.

    Parameters
    ----------
    relative_error, confidence
        Error bound ε, and the least probability with which it holds. Both in (0, 1).
    decay
        None: each question chooses a decay. If a decay is given here, all questions use it. Each
        level then keeps the elements whose decayed weight stays longest above its threshold, so
        that an old heavy element may be kept and a recent light one discarded. ``capacity`` is
        3 301 at the defaults, and the guarantee holds for sums of at least capacity/2³² of the
        largest weight ever seen.
    window
        Largest age that matters, in ticks or, with ``unit``, a duration: older elements are
        discarded, and a decay must be 0 from that age on. None: no limit.
    sampler
        ``"uniform"``, or ``"range"``, the sampler of the paper, which is slower and has about the
        same errors; it is there for comparison. With it, weights are integers up to 2²⁰, and a
        ``decay`` given to the constructor is rounded down to whole weights, ⌊weight · decay⌋. If a
        few heavy elements dominate a sum, a confidence above 0.95 needs ``copies``, since the
        sampled integers of one element cluster.
    copies
        Odd number of independent samples; answers are medians over them (§3.4). Each sample may
        then be smaller.
    capacity
        Elements per level; None: as many as ``relative_error`` and ``confidence`` require.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

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
        ticks = largest_window(window, unit)
        validate.one_of(sampler, "sampler", tuple(WEIGHTS))
        error = validate.fraction(relative_error, "relative_error")
        confidence = validate.confidence(confidence)
        if decay is not None:
            check_decay(decay, ticks)
        if validate.integer(copies, "copies", 1, _MOST_COPIES) % 2 == 0:
            raise ValueError(f"copies must be odd, got {copies}: answers are medians")
        failure = failure_per_copy(1 - confidence, int(copies))
        self.config = DecayedSampleConfig(
            error,
            confidence,
            decay,
            ticks,
            sampler,
            int(copies),
            validate.capacity(capacity)
            or capacity_for_count(error, failure, nested=decay is not None),
            validate.integer(seed, "seed"),
            unit,
        )
        config = self.config
        kind = WEIGHTS[sampler]()
        elements = TupleElements(kind, config.copies)
        keeping: tuple[Retention, Reading]
        if decay is None:
            keeping = ByTime(elements, ticks, config.copies), AnyDecay(kind, ticks)
        else:
            keeping = ByExpiry(elements, kind, decay, config.copies), OneDecay(kind, decay)
        super().__init__(
            SampleAlgorithm(
                config,
                Tuples(config.seed, unit, kind, config.copies),
                keeping[0],
                partial(kept_relative_error, config.capacity, error, failure, decay is not None),
                reading=Copies(keeping[1], config.copies, confidence, 1 - failure),
            )
        )

    def update(self, value: float = 0, *, at: Time, weight: float = 1, id: Any = None) -> None:
        """Add an element; if an equal one was added before, this has no effect.

        Parameters
        ----------
        value
            What ``where``, ``rank``, ``quantile`` and ``frequent_items`` look at.
        weight
            What is summed: a number ≥ 0. An element of weight 0 is ignored.
        id
            Integer, string or bytes. It is not stored; it only makes elements different.
        """
        self._keyed.add_row(value, at, weight, id)

    def update_many(self, value: Any = 0, *, at: Any, weight: Any = 1, id: Any = None) -> None:
        """Add one element per row; scalars are broadcast to the length of the arrays."""
        self._keyed.update_many(None, {"value": value, "at": at, "weight": weight, "id": id})

    @question_of_a_key
    def query(
        view: View, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """Return the decayed sum of weights, Σ weight · decay(age).

        Parameters
        ----------
        decay
            A :class:`~recency.decay.Decay`. None: the constructor's, or no decay if it has none
            either (with a ``window`` the sliding window of that width).
        now
            The time at which age is 0. None: ``latest``.
        where
            Function of two arrays, values and weights, that returns a boolean array: which elements
            to count. The error bound is then relative to the sum of all elements.

        Raises
        ------
        ValueError
            If ``now`` is before ``latest``, or if ``decay`` reaches beyond the constructor's
            ``window`` or differs from its ``decay``.
        """
        return _total(view, decay, now, lambda each: _of(each, where))

    @question_of_a_key
    def count(
        view: View, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """Return the decayed number of elements, Σ decay(age); without a relative guarantee.

        Each sampled element counts as the inverse of its sampling probability. If weights differ
        much, elements of small weight are rarely sampled, and the interval, which is computed from
        the smallest weight seen, is wide. With ``sampler="range"`` and a decay in the constructor,
        an element counts ⌊weight · decay⌋/weight. Parameters and errors are those of :meth:`query`.
        """
        least = _least_weight(view)
        return _total(view, decay, now, lambda each: _of(each, where).counted(least))

    @question_of_a_key
    def mean(
        view: View, decay: Decay | None = None, now: Time | None = None, where: Where | None = None
    ) -> Estimate:
        """Return the mean weight: decayed sum divided by decayed number; no relative guarantee.

        Parameters and errors are those of :meth:`query`; a mean of no elements is a
        ``NoAnswerError``.
        """
        least = _least_weight(view)
        most = math.ldexp(1.0, int(view.state.tally.largest[0]) + 1 - EXPONENT_ZERO)

        def ratio(each: Weighed, confidence: float) -> Triple:
            confidence = (1 + confidence) / 2  # that both hold
            chosen = _of(each, where)
            chosen.check_sampled()
            sums, counts = chosen.total(confidence), chosen.counted(least).total(confidence)
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
        """Return the share, in [0, 1], of the decayed sum that belongs to matching elements.

        ``where`` and the other parameters are those of :meth:`query`; a share of nothing is a
        ``NoAnswerError``.
        """
        return _share(view, where, decay, now)

    @question_of_a_key
    def rank(
        view: View, value: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the share, in [0, 1], of the decayed sum in elements with at most this value.

        A share of nothing is a ``NoAnswerError``.
        """
        number = validate.number(value, "value", exact=True)
        return _share(view, lambda values, _: values <= number, decay, now)

    @question_of_a_key
    def quantile(
        view: View, q: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the smallest value whose :meth:`rank` is at least ``q``, in [0, 1].

        A quantile of nothing is a ``NoAnswerError``.
        """
        rank = validate.number(q, "q", 0, 1)
        return _quantile(view, rank, decay, now)

    @question_of_a_key
    def median(view: View, decay: Decay | None = None, now: Time | None = None) -> Estimate:
        """Return the quantile 0.5."""
        return _quantile(view, 0.5, decay, now)

    @question_of_a_key
    def correlated_sum(
        view: View, threshold: float, decay: Decay | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the decayed sum of elements whose value is at least ``threshold``.

        The error is at most ``guarantee`` times the decayed sum of *all* elements (Theorem 3.2 of
        the paper on correlated aggregates).
        """
        number = validate.number(threshold, "threshold", exact=True)
        return _total(view, decay, now, lambda each: each.of(each.values >= number))

    @question_of_a_key
    def frequent_items(
        view: View, threshold: float, decay: Decay | None = None, now: Time | None = None
    ) -> list[tuple[float, Estimate]]:
        """Return the values whose decayed sum may reach ``threshold``, largest first.

        Parameters
        ----------
        threshold
            A float in (0, 1) is a share of the sum of all elements; an integer ≥ 1 is a decayed
            sum.

        Returns
        -------
        list[tuple[float, Estimate]]
            Values, and their decayed sums. A value that reaches the threshold is in the list with
            probability ``confidence``. A value that is below the threshold by more than
            ``guarantee`` times the sum of all elements is left out with probability ``confidence``.
            Thresholds below ``guarantee`` have no such guarantee: values that were never sampled
            are not known.
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
    """Return the median of the answers of all copies."""
    reading: Copies = view.algorithm.reading
    return reading.answer(reading.weighed(view, decay, now), ask, needs_data)


def _total(
    view: View, decay: Decay | None, now: Time | None, chosen: Callable[[Weighed], Weighed]
) -> Estimate:
    return _answer(view, decay, now, lambda each, confidence: chosen(each).total(confidence))


def _share(view: View, where: Where, decay: Decay | None, now: Time | None) -> Estimate:
    def share(each: Weighed, confidence: float) -> Triple:
        return each.share_of(matching(where, each.values, each.weights), confidence)

    return _answer(view, decay, now, share, needs_data=True)


def _quantile(view: View, rank: float, decay: Decay | None, now: Time | None) -> Estimate:
    def value_at(each: Weighed, confidence: float) -> Triple:
        return each.quantile(rank, confidence)

    return _answer(view, decay, now, value_at, needs_data=True)


def _least_weight(view: View) -> float:
    """Return a lower bound on the weight of every element: a power of two."""
    return math.ldexp(1.0, int(view.state.tally.least[0]) - EXPONENT_ZERO)


def _of(each: Weighed, where: Where | None) -> Weighed:
    return each if where is None else each.of(matching(where, each.values, each.weights))
