"""Many window counters in one rank log."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from recency.column import check_lengths
from recency.core import validate
from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    Int64Array,
    cutoffs,
    exact_sum,
    run_starts,
    stable_order,
)
from recency.core.codec import RecordWriter
from recency.core.counter_states import CounterStates, write_states
from recency.core.rank_log import RankLog, loosest
from recency.pending import Pending
from recency.sketch import encode_records
from recency.timeunit import to_ticks

if TYPE_CHECKING:
    from recency.window_counter import WindowCounter

_LEAST_FLUSH = 1 << 18  # a kernel call looks at all sketches: spread it over many events
_LARGEST_BATCH = 1 << 20
_LOW = 0xFFFFFFFF


class CounterColumn:
    """Sketches that differ in their streams alone; none was merged."""

    def __init__(self, prototype: "WindowCounter", merge_levels: int = 0) -> None:
        self._prototype = prototype
        leaf = prototype.empty_like(merge_levels)
        self._tightness = leaf._log.tightness
        self._log = RankLog.empty(leaf.rule, self._tightness[:0])
        self._latest = np.empty(0, dtype=np.int64)
        self._seen = np.empty(0, dtype=np.bool_)
        self._late_count = np.empty(0, dtype=np.int64)
        self._most_total = 0  # no sketch has more
        self._pending = Pending(columns=3)
        self._settled = True

    def __len__(self) -> int:
        """How many sketches there are."""
        return self._latest.size

    def extend(self, size: int) -> None:
        """Have empty sketches up to number ``size - 1``."""
        more = size - len(self)
        if more > 0:
            self._log = self._log.extended(np.repeat(self._tightness, more))
            self._latest = np.append(self._latest, np.full(more, INT64_MIN))
            self._seen = np.append(self._seen, np.zeros(more, dtype=np.bool_))
            self._late_count = np.append(self._late_count, np.zeros(more, dtype=np.int64))

    def update_many(self, numbers: Int64Array, arguments: Mapping[str, Any]) -> None:
        """``update_many`` for the sketch with each row's number."""
        check_lengths(numbers.size, arguments)
        values, ticks = self._checked(numbers, **arguments)
        if not numbers.size:
            return
        late = np.flatnonzero(ticks < self._latest[numbers])
        if late.size:
            sketch = self.sketch(int(numbers[late[0]]))
            sketch._refuse_late(int(ticks[late[0]]))
            ticks = np.maximum(ticks, self._latest[numbers])
        self._add_totals(numbers, values)
        added = np.bincount(numbers[late], minlength=len(self))
        self._late_count = np.minimum(self._late_count, INT64_MAX - added) + added
        np.maximum.at(self._latest, numbers, ticks)
        self._seen[numbers] = True
        self._settled = False
        if not values.all():
            counted = np.flatnonzero(values)
            numbers, ticks, values = numbers[counted], ticks[counted], values[counted]
        self._pending.add_block(numbers, ticks, values, size=numbers.size)
        if self._pending.size >= max(_LEAST_FLUSH, self._log.times.size):
            self._work_in()

    def _checked(
        self, numbers: Int64Array, value: Any = 1, *, at: Any = None
    ) -> tuple[Int64Array, Int64Array]:
        values = np.broadcast_to(validate.integers(value, "value", 0), numbers.size)
        return values, np.broadcast_to(to_ticks(at, self._prototype.config.unit), numbers.size)

    def _add_totals(self, numbers: Int64Array, values: Int64Array) -> None:
        """Refuse totals beyond int64. All together rarely get there: only then look at each."""
        most = self._most_total + exact_sum(values)
        if most > INT64_MAX:
            self.settle()
            order = stable_order(numbers)
            starts = run_starts(numbers[order])
            halves = [
                np.add.reduceat(part[order], starts) for part in (values >> 32, values & _LOW)
            ]
            touched = numbers[order[starts]]
            high = halves[0] + (halves[1] >> 32) + (self._log.totals[touched] >> 32)
            # What is left of both low halves adds at most one to the high ones.
            low = (halves[1] & _LOW) + (self._log.totals[touched] & _LOW)
            over = np.flatnonzero(high + (low >> 32) > INT64_MAX >> 32)
            if over.size:
                number = int(touched[over[0]])
                added = exact_sum(values[numbers == number])
                self.sketch(number)._check_total(added)
            most = int(self._log.totals.max()) + exact_sum(values)
        self._most_total = most

    def settle(self) -> None:
        """Work in what waits."""
        if not self._settled:
            self._work_in()
            self._pending.release()
            self._settled = True

    def _work_in(self) -> None:
        numbers, ticks, values = self._pending.take()
        order = np.argsort(ticks, kind="stable")
        numbers, ticks, values = numbers[order], ticks[order], values[order]
        for begin in range(0, max(ticks.size, 1), _LARGEST_BATCH):
            rows = slice(begin, begin + _LARGEST_BATCH)
            self._log = self._log.append(numbers[rows], ticks[rows], values[rows], self._cutoff())

    def _cutoff(self) -> Int64Array:
        return cutoffs(self._latest, self._prototype.config.window)

    def sketch(self, number: int) -> "WindowCounter":
        """One of them, on its own."""
        self.settle()
        sketch = self._prototype.empty_like()
        sketch._log = self._log.part(number, number + 1)
        sketch._latest = int(self._latest[number]) if self._seen[number] else None
        sketch._total = int(self._log.totals[number])
        sketch._late_count = int(self._late_count[number])
        return sketch

    def frames(self, finished: bool) -> list[bytes]:
        """``to_bytes`` of all."""
        self.settle()
        log, prototype = self._log, self._prototype
        if finished:
            tightness = loosest(log.rule, prototype.config.relative_error, np.ones(len(self)))
            log = log.loosened(tightness, self._cutoff())
        states = CounterStates(
            log.only(self._seen),
            log.tightness,
            self._seen,
            np.where(self._seen, self._latest, 0),
            self._late_count,
            np.ones(len(self)),
        )
        writer = RecordWriter(len(self))
        write_states(states, log.rule.tightness(prototype.config.relative_error), writer)
        return encode_records(prototype, writer)

    @property
    def nbytes(self) -> int:
        """Memory held: three numbers for each item and each event that waits, five per sketch."""
        return 24 * (self._log.times.size + self._pending.size) + 40 * len(self)
