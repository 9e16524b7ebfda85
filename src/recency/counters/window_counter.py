"""What the exponential histogram and the deterministic wave have in common: all but the rule."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from recency.algorithm import View
from recency.core import validate
from recency.core.arrays import floats_above, floats_below
from recency.core.rank_log import Rule, before_merging
from recency.counters.algorithm import CounterAlgorithm
from recency.counters.arrival import Arrival
from recency.estimate import Estimate
from recency.questions import question
from recency.sketch import Sketch
from recency.timeunit import Duration, Time, largest_window


@dataclass(frozen=True)
class WindowConfig:
    """Configuration of a window counter; ``window`` in ticks."""

    window: int | None
    relative_error: float
    by: str
    late: str
    unit: str | None


class WindowCounter(Sketch):
    """Sum of non-negative integers over any recent window of an in-order stream."""

    config: WindowConfig
    config_class = WindowConfig
    rule: ClassVar[Rule]

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        *,
        by: Literal["time", "count"] = "time",
        late: Literal["raise", "clamp"] = "raise",
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        ticks, arrival = largest_window(window, unit), Arrival(by, late, unit)
        error = validate.fraction(relative_error, "relative_error")
        self.config = WindowConfig(ticks, error, by, late, unit)
        super().__init__(CounterAlgorithm(self.rule, ticks, error, arrival))

    def update(self, value: int = 1, *, at: Time | None = None) -> None:
        """Add ``value`` at time ``at``.

        Parameters
        ----------
        value
            A non-negative integer.
        at
            Time of the event. Required with ``by="time"``. Not allowed with ``by="count"``, where
            every update takes the next position, also if ``value`` is 0.

        Raises
        ------
        OutOfOrderError
            If ``at`` is before ``latest`` and ``late="raise"``.
        ValueError
            If the total would exceed int64.
        """
        self._keyed.add_row(value, at)

    def update_many(self, value: Any = 1, *, at: Any = None) -> None:
        """Add one event per row; a scalar is broadcast to the length of the other array.

        Rows may be in any time order. Only a row older than ``latest`` before the call is late. If
        the call raises, no row was added.
        """
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """Return the sum of the values in (now − window, now], with a certain interval.

        Parameters
        ----------
        window
            Width in ticks or, with ``unit``, a duration. None: the constructor's ``window``.
        now
            End of the window, included. None: ``latest``. Not allowed with ``by="count"``.

        Raises
        ------
        ValueError
            If ``window`` exceeds the constructor's, or if ``now`` is before ``latest``.
        """
        tally, log = view.state
        if now is not None and view.algorithm.arrival.by == "count":
            raise TypeError('now must be left out with by="count": windows end at the last update')
        lower, upper = log.bounds(view.since(window, now))
        middle = (lower.view(np.uint64) + upper.view(np.uint64)).astype(np.float64) / 2
        lower, upper = before_merging(lower, upper, log.totals, tally.merge_factor)
        return Estimate(middle, floats_below(lower), floats_above(upper))

    @property
    def late_count(self) -> int:
        """Number of late events that were counted at ``latest`` (``late="clamp"``)."""
        return int(self._keyed.tally.late_count[0])
