"""What the exponential histogram and the deterministic wave have in common: all but the rule.

Both are a rank log of one key (see :mod:`recency.core.rank_log`) with a clock, a buffer, and a
record of what merging has cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from recency.column import Column
from recency.core import validate
from recency.core.arrays import (
    INT64_MAX,
    Int64Array,
    exact_sum,
    float_above,
    float_below,
    is_sorted,
)
from recency.core.codec import RecordReader, RecordWriter
from recency.core.counter_states import CounterStates, read_states, write_states
from recency.core.rank_log import (
    MOST_LEVELS,
    RankLog,
    Rule,
    before_merging,
    guarantee,
    loosest,
    tightness_for_tree,
)
from recency.counter_column import CounterColumn
from recency.estimate import Estimate
from recency.ordered import OrderedSketch
from recency.pending import Pending
from recency.timeunit import UNITS, to_duration
from recency.windowed import Duration, Time

_LEAST_FLUSH = 1 << 16  # a kernel call costs a few hundred µs: spread it over many events
_LARGEST_BATCH = 1 << 20  # bounds the memory that one kernel call takes
_MOST_SPREAD = 1e300  # finite, and far beyond the 2 at which it stops saying anything


@dataclass(frozen=True)
class WindowConfig:
    """Configuration of a window counter; ``window`` in ticks."""

    window: int | None
    relative_error: float
    by: str
    late: str
    unit: str | None


class WindowCounter(OrderedSketch):
    """Sum of non-negative integers over any recent window of an in-order stream."""

    config: WindowConfig
    config_class = WindowConfig
    merge_law = "bounded"
    rule: ClassVar[Rule]

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        by: Literal["time", "count"] = "time",
        late: Literal["raise", "clamp"] = "raise",
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        self._check_order(by, late, unit)
        self.config = WindowConfig(
            None if window is None else to_duration(window, unit),
            validate.fraction(relative_error, "relative_error"),
            by,
            late,
            unit,
        )
        self._start(self.rule.tightness(self.config.relative_error))

    def _start(self, tightness: int) -> None:
        self._log = RankLog.empty(self.rule, np.array([tightness]))
        self._latest: int | None = None
        self._total = 0
        self._late_count = 0
        self._spread = 1.0  # 1 + ε₂: merging has moved up to ε₂ of the truth across an edge
        self._pending = Pending(columns=2)
        self._settled = True

    # --- update ---

    def update(self, value: int = 1, *, at: Time | None = None) -> None:
        """Count ``value`` ≥ 0 at a time not before ``latest``.

        With ``by="count"`` the time is the position: every update is the next one, 0 included.
        """
        value = validate.integer(value, "value", 0)
        tick, late = self._placed_one(at)
        self._check_total(value)
        if value:
            self._pending.add_row(tick, value)
        self._advance(tick, value, late)

    def update_many(self, value: Any = 1, *, at: Any = None) -> None:
        """:meth:`update` for arrays; a scalar goes with all elements of the other array.

        Within one call times may come in any order.
        """
        values = validate.integers(value, "value", 0)
        ticks, late = self._placed(at, {"value": values})
        size = ticks.size
        if not size:
            return
        total = exact_sum(values) if values.ndim else int(values) * size
        self._check_total(total)
        newest = int(ticks.max())
        values = np.broadcast_to(values, size)
        if not values.all():
            ticks, values = ticks[values > 0], values[values > 0]
        room = self._flush_size()
        if self._pending.size and self._pending.size + ticks.size > room:
            self._work_in(*self._pending.take())
        if ticks.size < room:
            self._pending.add_block(ticks, values, size=ticks.size)
            self._advance(newest, total, late)
        else:
            self._advance(newest, total, late)
            self._work_in(ticks, values)

    def _advance(self, tick: int, added: int, late: int) -> None:
        super()._advance(tick, added, late)
        if self._pending.size >= self._flush_size():
            self._work_in(*self._pending.take())

    def _flush_size(self) -> int:
        return max(_LEAST_FLUSH, self._log.times.size)

    def _settle(self) -> None:
        """Work in what waits and let old items expire. When this happens makes no difference."""
        if not self._settled:
            self._work_in(*self._pending.take())
            self._pending.release()

    def _work_in(self, ticks: Int64Array, values: Int64Array) -> None:
        if ticks.size > _LARGEST_BATCH and not is_sorted(ticks):
            order = np.argsort(ticks, kind="stable")
            ticks, values = ticks[order], values[order]
        cutoff = self._cutoff()
        for begin in range(0, max(ticks.size, 1), _LARGEST_BATCH):
            batch = slice(begin, begin + _LARGEST_BATCH)
            keys = np.broadcast_to(np.int64(0), ticks[batch].size)
            self._log = self._log.append(keys, ticks[batch], values[batch], cutoff)
        self._settled = True

    # --- merge ---

    def empty_like(self, merge_levels: int = 0, stream: int = 0) -> Self:
        """A new sketch of the same configuration.

        After h levels of merging the error is (1 + ε')ʰ⁺¹ − 1 where ε' is that of the leaves, so
        leaves for ``merge_levels`` = h are kept with ε' = (1 + ε)^(1/(h + 1)) − 1.
        """
        levels = validate.integer(merge_levels, "merge_levels", 0, MOST_LEVELS)
        empty = super().empty_like()
        if levels:
            empty._start(tightness_for_tree(self.rule, self.config.relative_error, levels))
        return empty

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        self._settle()
        twin = super().empty_like()
        twin._become(self)
        return twin

    def _become(self, other: Self) -> None:
        # Logs are values: sharing one is as good as copying it.
        other._settle()
        self._log, self._latest, self._total = other._log, other._latest, other._total
        self._late_count, self._spread = other._late_count, other._spread
        self._pending, self._settled = Pending(columns=2), True

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        """Papapetrou et al. 2012, Theorem 4, for any number of operands in one step.

        Replaying a log moves at most its relative error of the units across any window edge, on
        top of what earlier merges moved: so the factors (1 + ε) multiply along a path of merges.
        """
        merged = sketches[0].empty_like()
        for sketch in sketches:
            sketch._settle()
        total = sum(sketch._total for sketch in sketches)
        merged._check_total(total)
        late_count = sum(sketch._late_count for sketch in sketches)
        merged._latest = max(s._latest for s in sketches if s._latest is not None)
        merged._total, merged._late_count = total, min(late_count, INT64_MAX)
        merged._settled = True
        counting = [sketch for sketch in sketches if sketch._total]
        if len(counting) < 2:  # the others saw nothing but zeros: the clock moves, no more
            source = (counting or sketches)[0]
            none = np.empty(0, dtype=np.int64)
            merged._log = source._log.append(none, none, none, merged._cutoff())
            merged._spread = source._spread
            return merged
        logs = [sketch._log for sketch in counting]
        merged._log = RankLog.merge(
            logs,
            [sketch._cutoff() for sketch in counting],
            tightness=np.max([log.tightness for log in logs], axis=0),
            cutoff=merged._cutoff(),
        )
        spread = max(sketch._spread * (1 + sketch._log_error) for sketch in counting)
        merged._spread = min(spread, _MOST_SPREAD)
        return merged

    def _column(self, merge_levels: int = 0, stream: int = 0) -> Column:
        """Clocks go for many at once; positions of count-based windows are counted one by one."""
        if self.config.by == "count":
            return super()._column(merge_levels, stream)
        return CounterColumn(self, merge_levels)

    def _finish(self, prototype: Self) -> None:
        """Keep no more than it takes to meet the error asked for after this much merging."""
        if self.is_empty:
            self._start(self.rule.tightness(self.config.relative_error))
        else:
            self._settle()
            tightness = loosest(self.rule, self.config.relative_error, np.array([self._spread]))
            self._log = self._log.loosened(tightness, self._cutoff())

    # --- questions ---

    @property
    def guarantee(self) -> float:
        """The relative error promised now: that of the log, and what merging has moved."""
        return guarantee(self._spread, self._log_error)

    @property
    def _log_error(self) -> float:
        return self.rule.relative_error(int(self._log.tightness[0]))

    def query(self, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The sum of values in (now − window, now], with an interval that is certain.

        ``window`` is at most the constructor's, and defaults to it; ``now`` defaults to ``latest``
        and may not be before it.
        """
        since = self._since(window, now)
        if self._latest is None:
            return Estimate(0.0, 0.0, 0.0)
        self._settle()
        lower, upper = self._log.bounds_of_one(since)
        middle = (lower + upper) / 2
        if self._spread > 1:
            ends = np.array([[lower], [upper]])
            bounds = before_merging(ends[0], ends[1], self._log.totals, self._spread)
            lower, upper = (int(bound[0]) for bound in bounds)
        return Estimate(middle, float_below(lower), float_above(upper))

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        return self._description(f"total={self._total}, latest={self._latest}")

    # --- bytes ---

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        for sketch in sketches:
            sketch._settle()
        seen = [sketch for sketch in sketches if sketch._latest is not None]
        states = CounterStates(
            RankLog.concatenate([cls._no_log(), *(sketch._log for sketch in seen)]),
            np.array([sketch._log.tightness[0] for sketch in sketches]),
            np.array([sketch._latest is not None for sketch in sketches]),
            np.array([sketch._latest or 0 for sketch in sketches], dtype=np.int64),
            np.array([sketch._late_count for sketch in sketches], dtype=np.int64),
            np.array([sketch._spread for sketch in sketches]),
        )
        write_states(states, cls.rule.tightness(sketches[0].config.relative_error), writer)

    @classmethod
    def _no_log(cls) -> RankLog:
        return RankLog.empty(cls.rule, np.empty(0, dtype=np.int64))

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        config = prototype.config
        usual_tightness = cls.rule.tightness(config.relative_error)
        states = read_states(cls.rule, usual_tightness, config.window, reader)
        states.check_order(cls.__name__, config.by, config.late)
        logs = iter(states.log.split())
        sketches = []
        for seen, tightness, latest, late_count, spread in zip(*states.rows(), strict=True):
            sketch = cls.__new__(cls)
            sketch.config = config
            sketch._start(tightness)
            if seen:
                sketch._log, sketch._latest = next(logs), latest
                sketch._total = int(sketch._log.totals[0])
                sketch._late_count, sketch._spread = late_count, spread
            sketches.append(sketch)
        return sketches
