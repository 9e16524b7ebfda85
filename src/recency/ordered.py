"""Sketches of streams in time order: by the clock, or by position."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import INT64_MAX, Int64Array
from recency.errors import OutOfOrderError
from recency.sketch import refuse_merge
from recency.timeunit import to_tick, to_ticks
from recency.windowed import Time, WindowedSketch


class OrderedSketch(WindowedSketch):
    """A sketch of a total; its configuration has ``by`` and ``late``."""

    needs_order = True
    _total: int
    _late_count: int
    _settled: bool

    @property
    def late_count(self) -> int:
        """How many events were counted at ``latest`` because they came late (``late="clamp"``)."""
        return self._late_count

    @staticmethod
    def _check_order(by: object, late: object, unit: object) -> None:
        """Check settings of the constructor."""
        validate.one_of(by, "by", ("time", "count"))
        validate.one_of(late, "late", ("raise", "clamp"))
        if by == "count" and (unit is not None or late != "raise"):
            raise ValueError('by="count" has no clock: leave out unit and late')

    def _placed_one(self, at: Time | None) -> tuple[int, int]:
        """When one update is counted, and how many of it, 0 or 1, were late."""
        if self.config.by == "count":
            return self._next_position(at), 0
        tick = to_tick(at, self.config.unit)
        if self.needs_order and self._latest is not None and tick < self._latest:
            self._refuse_late(tick)
            return self._latest, 1
        return tick, 0

    def _placed(self, at: Any, columns: dict[str, NDArray[Any]]) -> tuple[Int64Array, int]:
        """When each row is counted, and how many were late; ``columns`` say how many there are."""
        if self.config.by == "count":
            size = validate.common_length(columns)
            first = self._next_position(at, size)
            return np.arange(first, first + size), 0
        ticks = to_ticks(at, self.config.unit)
        size = validate.common_length({**columns, "at": ticks})
        ticks = np.broadcast_to(ticks, size)
        if size and self.needs_order and self._latest is not None:
            earliest = int(ticks.min())
            if earliest < self._latest:
                self._refuse_late(earliest)
                return np.maximum(ticks, self._latest), int((ticks < self._latest).sum())
        return ticks, 0

    def _next_position(self, at: object, size: int = 1) -> int:
        if at is not None:
            raise TypeError('at must be left out with by="count": every update is one position')
        seen = self._latest or 0
        if seen + size > INT64_MAX:
            raise ValueError(f"the number of updates must stay within int64, got {seen} + {size}")
        return seen + 1

    def _refuse_late(self, tick: int) -> None:
        if self.config.late == "raise":
            raise OutOfOrderError(
                f"at must not be before the latest time seen ({self._latest}), got {tick}; "
                'late="clamp" counts such events at the latest time'
            )

    def _check_total(self, added: int) -> None:
        if self._total + added > INT64_MAX:
            raise ValueError(f"total must stay within int64, got {self._total} + {added}")

    def _advance(self, tick: int, added: int, late: int) -> None:
        """Take note of updates that were checked."""
        self._latest = tick if self._latest is None else max(self._latest, tick)
        self._total += added
        self._late_count = min(self._late_count + late, INT64_MAX)
        self._settled = False

    def _since(self, window: Any, now: Any) -> int:
        if now is not None and self.config.by == "count":
            raise TypeError('now must be left out with by="count": windows end at the last update')
        return super()._since(window, now)

    def _check_mergeable(self, other: object) -> None:
        super()._check_mergeable(other)
        if self.config.by == "count":
            refuse_merge(
                type(self).__name__,
                "count-based windows do not say how the positions of two streams interleave, and "
                "any order would fit both (Papapetrou et al. 2012, Fig. 2); use time-based ones, "
                "or add the answers of both",
            )
