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
    """Age of the n-th most recent 1 of a stream that arrives in time order.

    **Guarantee.** For every n whose 1 is within ``window``, the relative error of the age is at
    most ``relative_error`` (ε), and the interval is certain (confidence 1).

    **Cost.** The sketch stores at most ⌈(1/ε + 1)/2⌉ times for each power of two in the range of
    ages.

    **Merging** is exact: any split of the events gives the same bytes as one pass.

    **Time.** An event must not be older than ``latest``. The rows of one ``update_many`` may be in
    any order. The rule for which times to keep depends on the ticks themselves: the same stream
    shifted in time may have different, equally good, intervals.

    Parameters
    ----------
    window
        Largest age that can be asked for, in ticks or, with ``unit``, a duration. None: no limit.
    relative_error
        Error bound ε, in (0, 1).
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

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
        """Add a 1 at time ``at``, or a 0, which only advances ``latest``.

        Raises
        ------
        OutOfOrderError
            If ``at`` is before ``latest``.
        """
        self._keyed.add_row(value, at)

    def update_many(self, value: Any = 1, *, at: Any) -> None:
        """Add one event per row; a scalar is broadcast to the length of the other array.

        Rows may be in any time order, but not older than ``latest`` before the call.
        """
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view: View, n: int = 1, now: Time | None = None) -> Estimate:
        """Return the age of the n-th most recent 1, in ticks.

        Parameters
        ----------
        n
            1 for the most recent 1, 2 for the one before it, and so on.
        now
            The time from which the age is measured. None: ``latest``.

        Raises
        ------
        NoAnswerError
            If the stream had fewer than ``n`` 1s, or if the n-th is certainly older than the
            constructor's ``window``. If it may or may not be older, the interval reaches beyond
            ``window``.
        ValueError
            If ``now`` is before ``latest``.
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
