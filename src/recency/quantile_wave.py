"""Quantiles over asynchronous streams (Xu, Tirthapura & Busch 2008, §3, §5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import Int64Array, counts_reaching
from recency.core.level_sample import NO_LEVEL, levels_of_items
from recency.core.sizing import capacity_for_ranks, kept_rank_error, rank_margin
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.event_sketch import EventSketch
from recency.sample_sketch import at_least
from recency.timeunit import UNITS, to_duration
from recency.windowed import Duration, Time


@dataclass(frozen=True)
class QuantileWaveConfig:
    """Configuration of a quantile wave; ``window`` in ticks."""

    window: int | None
    rank_error: float
    confidence: float
    capacity: int
    seed: int
    unit: str | None


class QuantileWave(EventSketch):
    """Median, any quantile, and ranks over any recent window of a stream in any order.

    **Guarantee.** With probability ``confidence`` the rank of *every* quantile of a window is off
    by at most ``rank_error`` of its size, all of them at once; exact while nothing in reach was
    discarded. Intervals are in the unit of the values.

    **Cost.** ``capacity`` is 18 190 at the defaults (rank_error 0.01); about
    log₂(events / capacity) levels of so many values are kept.

    **Merging** is exact. Sketches that are built side by side need different ``stream`` numbers, or
    ids; see :class:`~recency.SumWave`.

    **Time.** Late events count where they belong. Windows are half-open, (now − window, now].

    The quantile q of n values is the smallest value that at least q·n of them do not exceed.
    Values are float64; integers that would be rounded are refused.

    Parameters
    ----------
    window
        The largest window that may be asked, in ticks or as a duration (with ``unit``); None for
        no bound.
    rank_error, confidence
        In (0, 1).
    stream
        Tells apart sketches that are built side by side and merged later.
    capacity
        Events per level; None for what ``rank_error`` and ``confidence`` need.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

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
    _least_value, _most_value = -math.inf, math.inf
    _exact_values = True

    def __init__(
        self,
        window: Duration | None = None,
        rank_error: float = 0.01,
        confidence: float = 0.95,
        stream: int = 0,
        *,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        error = validate.fraction(rank_error, "rank_error")
        sure = validate.confidence(confidence)
        self.config = QuantileWaveConfig(
            None if window is None else to_duration(window, unit),
            error,
            sure,
            capacity_for_ranks(error, 1 - sure)
            if capacity is None
            else validate.integer(capacity, "capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        self._begin(stream)

    def update(self, value: float, *, at: Time, id: Any = None) -> None:
        """See a number at a time; ``id`` (int, str or bytes), if given, makes the coin."""
        self._update(value, at, id)

    def update_many(self, value: Any, *, at: Any, id: Any = None) -> None:
        """:meth:`update` for arrays; a scalar goes with all elements of the others."""
        self._update_many(value, at, id)

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        return levels_of_items(columns[0].view(np.uint64))

    @property
    def guarantee(self) -> float:
        """The rank error kept with probability ``confidence``."""
        config = self.config
        return kept_rank_error(config.capacity, config.rank_error, 1 - config.confidence)

    def query(
        self, q: float = 0.5, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """The value of rank ``q`` in (now − window, now]; the median by default."""
        answer = self.quantiles([q], window, now)
        return Estimate(
            float(answer.value[0]),
            float(answer.lower[0]),
            float(answer.upper[0]),
            answer.confidence,
        )

    def quantiles(
        self, qs: Any, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Several quantiles; the confidence is that all intervals hold at once.

        Within the margin of rank 0 or 1 one end is infinite: the extremes may not be sampled.
        """
        ranks = validate.numbers(qs, "q", 0, 1)
        values, margin = self._sampled(window, now)
        asked = np.stack([ranks, ranks - margin, ranks + margin])
        counts = np.ceil(counts_reaching(asked, values.size)).astype(np.int64)
        index = np.clip(counts - 1, 0, values.size - 1)
        value, lower, upper = values[index]
        if not margin:
            return Estimate(value, lower, upper)
        # A sample says nothing of what lies beyond its own smallest and largest value.
        lower = np.where(ranks - margin > 0, lower, -np.inf)
        upper = np.where(ranks + margin <= 1, upper, np.inf)
        return Estimate(value, lower, upper, self.config.confidence)

    def rank(
        self, value: float, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """The share of the window's values that do not exceed ``value``, in [0, 1]."""
        number = validate.number(value, "value", exact=True)
        values, margin = self._sampled(window, now)
        share = float(np.searchsorted(values, number, side="right") / values.size)
        return Estimate(
            share,
            max(0.0, share - margin),
            min(1.0, share + margin),
            self.config.confidence if margin else 1.0,
        )

    def count(self, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The number of events in (now − window, now]."""
        since = self._since(window, now)
        if self._latest is None:
            return Estimate(0.0, 0.0, 0.0)
        level, present, sampled = self._window_sample(since)
        seen = float(present.size)
        if level == NO_LEVEL:
            return Estimate(seen, seen, seen)
        return at_least(self._counted(present[sampled], level), seen)

    def _sampled(
        self, window: Duration | None, now: Time | None
    ) -> tuple[NDArray[np.float64], float]:
        """The sampled values of the window in order, and how far their ranks may be off."""
        since = self._since(window, now)
        level, in_sample = self._level_of_window(since)
        rows = np.flatnonzero(in_sample & (self._sample.times > since))
        values = np.sort(self._sample.columns[0][rows])
        if not values.size and level == NO_LEVEL:
            raise NoAnswerError("a quantile or rank needs values, and the window has none")
        if level == NO_LEVEL:
            return values, 0.0
        factor = self._widening(rows, level)
        if not values.size:
            raise NoAnswerError(
                "none of the window's values was sampled: it needs a larger capacity"
            )
        return values, rank_margin(values.size / factor, self.config.confidence)
