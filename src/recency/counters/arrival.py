"""When rows of a stream in time order are counted: by the clock, or by position."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import NEVER, PerKey
from recency.core import by_key, validate
from recency.core.arrays import INT64_MAX, Int64Array, broadcast, nth_of_its_kind
from recency.errors import OutOfOrderError
from recency.timeunit import to_tick, to_ticks

NOT_BY_COUNT = (
    "count-based windows do not say how the positions of two streams interleave, and any order "
    "would fit both (Papapetrou et al. 2012, Fig. 2); use time-based ones, or add the answers of "
    "both"
)


@dataclass(frozen=True, eq=False)
class CounterTally(PerKey):
    """What is counted of each stream."""

    totals: Int64Array
    late_count: Int64Array
    """How many rows were counted at ``latest`` because they came late."""
    merge_factor: NDArray[np.float64]
    """1 + ε₂: merging has moved up to ε₂ of the truth across an edge."""
    start = {**PerKey.start, "merge_factor": 1.0}  # noqa: RUF012

    def merged(self, into: Int64Array, size: int, total_name: str) -> "CounterTally":
        """The tally of ``size`` keys, where key i goes to key ``into[i]``; factors are left at 1.

        Refuses totals beyond int64, naming the first one that is too much.
        """
        totals, over = by_key.sums(into, self.totals, size)
        if over.any():
            running = 0
            for total in self.totals[into == over.argmax()].tolist():
                check_total(running, total, total_name)
                running += total
        none = CounterTally.empty(size)
        latest = by_key.raised(none.latest, into, self.latest)
        late_count, _ = by_key.sums(into, self.late_count, size)
        return CounterTally(latest, totals, late_count, none.merge_factor)


@dataclass(frozen=True)
class Arrival:
    """The settings ``by``, ``late`` and ``unit`` of a counter."""

    by: str
    late: str
    unit: str | None
    needs_order: bool = True
    """Whether rows before the latest time are late at all."""
    can_clamp: bool = True
    """Whether ``late`` is a setting of the sketch."""
    total_name: str = "total"
    """What the total is called in messages."""

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.one_of(self.by, "by", ("time", "count"))
        validate.one_of(self.late, "late", ("raise", "clamp"))
        if self.by == "count" and (self.unit is not None or self.late != "raise"):
            raise ValueError('by="count" has no clock: leave out unit and late')

    def check(
        self, at: Any, columns: dict[str, NDArray[Any]], size: int | None
    ) -> tuple[Int64Array, int]:
        """A time for each row, and the number of rows. By position, times are 0."""
        if self.by == "count":
            self._refuse_time(at)
            ticks = np.asarray(np.int64(0))
        else:
            ticks = to_ticks(at, self.unit)
        if size is None:
            size = validate.common_length({**columns, "at": ticks})
        return broadcast(ticks, size), size

    def place(
        self, tally: CounterTally, keys: Int64Array, ticks: Int64Array, values: Int64Array
    ) -> tuple[CounterTally, Int64Array]:
        """The tally with these rows, and when each is counted; late ones may be refused."""
        size = tally.size
        late_count = tally.late_count
        if self.by == "count":
            ticks = self._positions(tally, keys)
        elif self.needs_order and ticks.min() < tally.latest.max():
            before = tally.latest[keys]
            rows = np.flatnonzero(ticks < before)
            if rows.size:
                first = rows[ticks[rows].argmin() if size == 1 else 0]
                self._refuse_late(int(ticks[first]), int(before[first]))
                ticks = np.maximum(ticks, before)
                late_count, _ = by_key.added(late_count, by_key.counts(keys[rows], size))
        latest = by_key.raised(tally.latest, keys, ticks)
        totals, over = by_key.with_sums(tally.totals, keys, values)
        if over.any():
            key = over.argmax()
            refuse_total(int(tally.totals[key]), values[keys == key], self.total_name)
        return CounterTally(latest, totals, late_count, tally.merge_factor), ticks

    def place_one(self, latest: int, at: Any) -> tuple[int, int]:
        """When one update is counted, and how many of it, 0 or 1, were late."""
        if self.by == "count":
            self._refuse_time(at)
            seen = 0 if latest == NEVER else latest
            _check_position(seen, 1)
            return seen + 1, 0
        tick = to_tick(at, self.unit)
        if self.needs_order and tick < latest:
            self._refuse_late(tick, latest)
            return latest, 1
        return tick, 0

    def _refuse_time(self, at: Any) -> None:
        if at is not None:
            raise TypeError('at must be left out with by="count": every update is one position')

    def _positions(self, tally: CounterTally, keys: Int64Array) -> Int64Array:
        seen, added = tally.known_latest, by_key.counts(keys, tally.size)
        over = np.flatnonzero(seen > INT64_MAX - added)
        if over.size:
            _check_position(int(seen[over[0]]), int(added[over[0]]))
        nth = np.arange(keys.size) if tally.size == 1 else nth_of_its_kind(keys)
        positions: Int64Array = seen[keys] + nth + 1
        return positions

    def _refuse_late(self, tick: int, latest: int) -> None:
        if self.late == "raise":
            advice = '; late="clamp" counts such events at the latest time'
            raise OutOfOrderError(
                f"at must not be before the latest time seen ({latest}), got {tick}"
                f"{advice if self.can_clamp else ''}"
            )


def _check_position(seen: int, more: int) -> None:
    if seen + more > INT64_MAX:
        raise ValueError(f"the number of updates must stay within int64, got {seen} + {more}")


def check_total(total: int, added: int, name: str = "total") -> None:
    """Refuse a total beyond int64."""
    if total + added > INT64_MAX:
        raise ValueError(f"{name} must stay within int64, got {total} + {added}")


def refuse_total(total: int, values: Int64Array, name: str = "total") -> None:
    """:func:`check_total` for an array of values."""
    check_total(total, sum(values.tolist()), name)
