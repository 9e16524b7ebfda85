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
        """Count ``value`` ≥ 0 at a time not before ``latest``.

        With ``by="count"`` the time is the position: every update is the next one, 0 included.
        """
        self._keyed.add_row(value, at)

    def update_many(self, value: Any = 1, *, at: Any = None) -> None:
        """:meth:`update` for arrays; a scalar is broadcast to the length of the other array.

        Within one call times may come in any order.
        """
        self._keyed.update_many(None, {"value": value, "at": at})

    @question
    def query(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The sum of values in (now − window, now], with an interval that is certain.

        ``window`` is at most the constructor's, and defaults to it; ``now`` defaults to ``latest``
        and may not be before it.
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
        """How many events were counted at ``latest`` because they came late (``late="clamp"``)."""
        return int(self._keyed.tally.late_count[0])
