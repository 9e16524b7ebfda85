"""The n-th most recent 1 (Gibbons & Tirthapura 2004, §5)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from recency.algorithm import View
from recency.core import validate
from recency.core.arrays import floats_above, floats_below, midpoints, ticks_between
from recency.counters.nth_recent_algorithm import NthRecentAlgorithm
from recency.estimate import Estimate
from recency.questions import question, unanswered
from recency.sketch import Sketch
from recency.timeunit import Duration, Time, largest_window


@dataclass(frozen=True)
class NthRecentWaveConfig:
    """Configuration of an n-th-recent wave; ``window`` in ticks."""

    window: int | None
    relative_error: float
    unit: str | None


class NthRecentWave(Sketch):
    """How long ago was the n-th most recent 1? For a stream that comes in time order.

    **Guarantee.** The age is within ``relative_error`` of the truth for every n whose 1 is in the
    largest window, and the interval is certain (confidence 1).

    **Cost.** At most ⌈(1/ε + 1)/2⌉ times for each power of two in the range of ages.

    **Merging** is exact: any split of the events gives the same bytes as one pass.

    **Time.** Events must not be older than ``latest``; within one ``update_many`` any order will
    do. What is remembered depends on the clock itself, so equal streams at different times may have
    different (equally good) intervals.

    Parameters
    ----------
    window
        How far back a 1 may lie, in ticks or as a duration (with ``unit``); None for no bound.
    relative_error
        In (0, 1).
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import NthRecentWave
    >>> failures = NthRecentWave(relative_error=0.1)
    >>> failures.update_many(at=range(0, 100_000, 7))
    >>> answer = failures.query(1000)  # exact: 7 × 999 = 6993
    >>> answer.lower <= 6993 <= answer.upper and abs(float(answer) - 6993) <= 0.1 * 6993
    True

    References
    ----------
    Gibbons & Tirthapura, *Distributed Streams Algorithms for Sliding Windows*, Theory of Computing
    Systems 2004, §5 (sketched there; the argument is in ``recency/core/tick_log.py``).
    """

    family = 6
    config: NthRecentWaveConfig
    config_class = NthRecentWaveConfig

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        *,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        ticks = largest_window(window, unit)
        error = validate.fraction(relative_error, "relative_error")
        self.config = NthRecentWaveConfig(ticks, error, unit)
        super().__init__(NthRecentAlgorithm(ticks, error, unit))

    def update(self, value: int = 1, *, at: Time) -> None:
        """See a 1, or a 0, which only moves the clock, at a time not before ``latest``."""
        self._keyed.add_row(value, at)

    def update_many(self, value: Any = 1, *, at: Any) -> None:
        """:meth:`update` for arrays; a scalar is broadcast to the length of the other array."""
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view: View, n: int = 1, now: Time | None = None) -> Estimate:
        """The age, in ticks at ``now``, of the n-th most recent 1.

        A ``ValueError`` if there are fewer 1s, or if that one is certainly older than the largest
        window; where this cannot be told, the interval says so.
        """
        n = validate.integer(n, "n", 1)
        since, ticks = view.since(None, now), view.now(now)
        tally, log = view.state
        too_few = tally.totals < n
        earliest, last = log.locate(np.where(too_few, 1, tally.totals - n + 1), tally.latest)
        reason = f"the {n}-th most recent 1 is older than the largest window"
        if too_few.any():
            reason = f"n must be at most the number of 1s seen ({tally.totals[0]}), got {n}"
        youngest, oldest = ticks_between(last, ticks), ticks_between(earliest, ticks)
        middle = midpoints(youngest, oldest)
        age = Estimate(middle, floats_below(youngest), floats_above(oldest))
        return unanswered(age, too_few | (last <= since), reason)
