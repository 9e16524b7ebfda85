"""Quantiles over asynchronous streams (Xu, Tirthapura & Busch 2008, §3, §5)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from recency.algorithm import View
from recency.core import by_key, validate
from recency.core.arrays import (
    BoolArray,
    FloatArray,
    Int64Array,
    counts_reaching,
    offsets,
    stable_order,
)
from recency.core.sizing import capacity_for_ranks, kept_rank_error
from recency.estimate import Estimate
from recency.questions import question, question_of_many, unanswered
from recency.samples.age_sums import AgeSums
from recency.samples.algorithm import SampleAlgorithm
from recency.samples.events import CoinLevels, Events, ValueElements
from recency.samples.intake import check_of
from recency.samples.rank_bounds import rank_bounds
from recency.samples.retention import ByTime
from recency.samples.window_sample import WindowSample, like
from recency.samples.window_sums import window_sums
from recency.sketch import Sketch
from recency.timeunit import Duration, Time, largest_window


@dataclass(frozen=True)
class QuantileWaveConfig:
    """Configuration of a quantile wave; ``window`` in ticks."""

    window: int | None
    rank_error: float
    confidence: float
    capacity: int
    seed: int
    unit: str | None


class QuantileWave(Sketch):
    """Median, quantiles and ranks over any recent window of a stream that arrives in any order.

    **Guarantee.** With probability ``confidence``, *all* quantiles of a window hold at once: the
    rank of each answer differs from the rank asked for by at most ``rank_error``, as a share of the
    events in the window. Answers are exact while no event of the window was discarded. Intervals
    are in the unit of the values.

    **Cost.** ``capacity`` is 18 190 at the defaults (rank_error 0.01). The sketch keeps about
    log₂(events / capacity) levels, each with up to ``capacity`` values.

    **Merging** is exact. Sketches that are built separately and merged need different ``stream``
    numbers, or events with ids; see :class:`~recency.SumWave`. If all events have ids, intervals
    cover however often an event is repeated with its id.

    **Time.** Events may arrive in any order; each counts at its own time. Windows are half-open,
    (now − window, now].

    The quantile q of n values is the smallest value that at least q·n of them do not exceed.
    Values are float64; integers that would be rounded are refused.

    Parameters
    ----------
    window
        Longest window that can be queried, in ticks or, with ``unit``, a duration such as
        ``"90 minutes"``. None: no limit.
    rank_error, confidence
        Error bound on ranks, as a share, and the least probability with which it holds. Both in
        (0, 1).
    stream
        Stream number, from which events without an ``id`` draw their coins. Sketches that are
        built separately and merged later need different numbers.
    capacity
        Events per level; None: as many as ``rank_error`` and ``confidence`` require.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

    Examples
    --------
    >>> from recency import QuantileWave
    >>> latency = QuantileWave(window=1000, rank_error=0.05)
    >>> latency.update_many([n * 7919 % 100_000 for n in range(100_000)], at=range(100_000))
    >>> answer = latency.query(0.5)
    >>> 45_000 <= float(answer) <= 55_000
    True

    References
    ----------
    Xu, Tirthapura & Busch, *Sketching Asynchronous Data Streams over Sliding Windows*, Distributed
    Computing 2008, §3, §5. Massart, *The Tight Constant in the Dvoretzky–Kiefer–Wolfowitz
    Inequality*, 1990.
    """

    family = 5
    config: QuantileWaveConfig
    config_class = QuantileWaveConfig

    def __init__(
        self,
        window: Duration | None = None,
        rank_error: float = 0.01,
        confidence: float = 0.95,
        *,
        stream: int = 0,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        ticks = largest_window(window, unit)
        error = validate.fraction(rank_error, "rank_error")
        confidence = validate.confidence(confidence)
        self.config = QuantileWaveConfig(
            ticks,
            error,
            confidence,
            validate.capacity(capacity) or capacity_for_ranks(error, 1 - confidence),
            validate.integer(seed, "seed"),
            unit,
        )
        config = self.config
        super().__init__(
            SampleAlgorithm(
                config,
                Events(config.seed, unit, check_of("value", exact=True), drops_zeros=False),
                ByTime(ValueElements(CoinLevels()), ticks),
                partial(kept_rank_error, config.capacity, error, 1 - confidence),
                sums=AgeSums(ticks, lambda values: None, 1),
            ),
            stream,
        )

    def update(self, value: float, *, at: Time, id: Any = None) -> None:
        """Add a number at time ``at``; for ``id`` see :meth:`SumWave.update`.

        Raises
        ------
        ValueError
            If ``value`` is an integer that float64 cannot hold exactly.
        """
        self._keyed.add_row(value, at, id)

    def update_many(self, value: Any, *, at: Any, id: Any = None) -> None:
        """Add one number per row; scalars are broadcast to the length of the arrays."""
        self._keyed.update_many(None, {"value": value, "at": at, "id": id})

    @question
    def query(
        view: View, q: float = 0.5, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the quantile ``q`` in [0, 1] of the values in (now − window, now].

        ``window`` and ``now`` are described in :class:`~recency.Sketch`.

        Raises
        ------
        NoAnswerError
            If the window has no values, or none of them was sampled.
        """
        return _first_of_each(_quantiles(view, [q], window, now))

    @question_of_many
    def quantiles(
        view: View, qs: Any, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the quantiles ``qs``; the confidence is that all intervals hold at once.

        For ranks so close to 0 or 1 that the margin of error includes the extremes, one end of the
        interval is infinite: the smallest and the largest value may not have been sampled. Raises
        what :meth:`query` raises.
        """
        answers = _quantiles(view, qs, window, now)
        return _first_of_each(answers) if validate.is_scalar(qs) else answers

    @question
    def rank(
        view: View, value: float, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the share, in [0, 1], of the values in the window that are at most ``value``.

        Raises what :meth:`query` raises.
        """
        number = validate.number(value, "value", exact=True)
        ranks = _Ranks(view, window, now)
        not_above = by_key.counts_of(ranks.values <= number, ranks.keys, ranks.counts.size)
        shares = not_above / np.maximum(ranks.counts, 1)
        lower, upper = ranks.bounds.of_rank(not_above)
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
        estimate = Estimate(np.clip(shares, lower, upper), lower, upper)
        return ranks.answered(estimate, (lower <= 0) & (upper >= 1))

    @question
    def count(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """Return the number of events in (now − window, now]."""
        ones = np.ones(view.state.body.sample.times.size)
        return window_sums(view, view.since(window, now), ones)


def _first_of_each(rows: Estimate) -> Estimate:
    value, lower, upper = (each[:, 0] for each in (rows.value, rows.lower, rows.upper))
    return Estimate(value, lower, upper, rows.confidence)


def _quantiles(view: View, qs: Any, window: Any, now: Any) -> Estimate:
    """Return a row of quantiles for each key."""
    shares = np.atleast_1d(validate.numbers(qs, "q", 0, 1))
    ranks = _Ranks(view, window, now)
    counts = ranks.counts[:, None]
    sizes = np.maximum(counts, 1)
    places = np.ceil(counts_reaching(shares, sizes)).astype(np.int64) - 1
    below, above = ranks.bounds.of_quantiles(shares)
    in_order, starts = ranks.in_order()
    asked = np.stack([np.clip(places, below, above), below, above])
    value, lower, upper = in_order[starts + np.clip(asked, 0, sizes - 1)]
    lower, upper = np.where(below < 0, -np.inf, lower), np.where(above >= counts, np.inf, upper)
    is_useless = np.all(np.isinf(lower) & np.isinf(upper), axis=1)
    return ranks.answered(Estimate(value, lower, upper), is_useless)


_NONE = "a quantile or rank needs values, and the window has none"
_NOT_SAMPLED = "none of the window's values was sampled: it needs a larger capacity"


class _Ranks:
    """The sampled values of a window of each key, and how far their ranks may be off."""

    def __init__(self, view: View, window: Any, now: Any) -> None:
        since = view.since(window, now)
        self._rows = rows = WindowSample(view, since)
        self._is_counted = view.state.tally.is_counted
        values = rows.sample.columns[0]
        sampled = np.flatnonzero(rows.is_sampled)
        self.keys, self.values = rows.keys[sampled], values[rows.present[sampled]]
        self.counts = rows.count(rows.is_sampled)
        self._factor = rows.widening(rows.is_sampled, values.view(np.int64))
        self.bounds = rank_bounds(view, since, rows, self.counts, self._factor)

    def in_order(self) -> tuple[FloatArray, Int64Array]:
        """Return the values by key, then ascending, and where those of each key begin (one column).

        A key without values begins somewhere.
        """
        if self.counts.size == 1:
            in_order = np.sort(self.values)
        else:
            order = np.argsort(self.values)
            in_order = self.values[order[stable_order(self.keys[order])]]
        starts = np.minimum(offsets(self.counts)[:-1], max(in_order.size - 1, 0))
        return np.append(in_order, np.nan) if not in_order.size else in_order, starts[:, None]

    def answered(self, estimate: Estimate, is_useless: BoolArray) -> Estimate:
        """Return an estimate with its confidence, and no answer where values tell none."""
        rows = self._rows
        estimate = replace(estimate, confidence=np.where(rows.is_exact, 1.0, rows.confidence))
        # Where events are counted by age bounds hold, whatever the sample is like.
        may_be_wrong = ~self._is_counted | is_useless
        estimate = rows.refused(estimate, self.counts, self._factor, may_be_wrong)
        for which, reason in ((rows.is_exact, _NONE), (~rows.is_exact, _NOT_SAMPLED)):
            missing: BoolArray = which & (self.counts == 0)
            estimate = unanswered(estimate, like(missing, estimate), reason)
        return estimate
