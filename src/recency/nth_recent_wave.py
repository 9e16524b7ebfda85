"""The n-th most recent 1 (Gibbons & Tirthapura 2004, §5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from recency.core import validate
from recency.core.arrays import INT64_MAX, INT64_MIN, float_above, float_below
from recency.core.codec import RecordReader, RecordWriter, corrupt, zigzag
from recency.core.rank_log import WAVE
from recency.core.tick_log import TickLog
from recency.errors import NoAnswerError, OutOfOrderError
from recency.estimate import Estimate
from recency.pending import Pending
from recency.timeunit import UNITS, to_duration, to_tick, to_ticks
from recency.windowed import Duration, Time, WindowedSketch

_FLUSH = 1 << 16


@dataclass(frozen=True)
class NthRecentWaveConfig:
    """Configuration of an n-th-recent wave; ``window`` in ticks."""

    window: int | None
    relative_error: float
    unit: str | None


class NthRecentWave(WindowedSketch):
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
    merge_law = "exact"
    needs_order = True

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        *,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        self.config = NthRecentWaveConfig(
            None if window is None else to_duration(window, unit),
            validate.fraction(relative_error, "relative_error"),
            unit,
        )
        self._start()

    def _start(self) -> None:
        self._log = TickLog.empty(WAVE.tightness(self.config.relative_error))
        self._latest = None
        self._pending = Pending(columns=2)
        self._settled = True

    def update(self, value: int = 1, *, at: Time) -> None:
        """See a 1, or a 0, which only moves the clock, at a time not before ``latest``."""
        value = validate.integer(value, "value", 0, 1)
        tick = to_tick(at, self.config.unit)
        self._refuse_late(tick)
        if value:
            self._pending.add_row(tick, value)
        self._advance(tick)

    def update_many(self, value: Any = 1, *, at: Any) -> None:
        """:meth:`update` for arrays; a scalar goes with all elements of the other array."""
        values = validate.integers(value, "value", 0, 1)
        ticks = to_ticks(at, self.config.unit)
        size = validate.common_length({"value": values, "at": ticks})
        if not size:
            return
        ticks = np.broadcast_to(ticks, size)
        self._refuse_late(int(ticks.min()))
        newest = int(ticks.max())
        values = np.broadcast_to(values, size)
        if not values.all():
            ticks, values = ticks[values > 0], values[values > 0]
        self._pending.add_block(ticks, values, size=ticks.size)
        self._advance(newest)

    def _refuse_late(self, tick: int) -> None:
        if self._latest is not None and tick < self._latest:
            raise OutOfOrderError(
                f"at must not be before the latest time seen ({self._latest}), got {tick}"
            )

    def _advance(self, tick: int) -> None:
        self._latest = tick if self._latest is None else max(self._latest, tick)
        self._settled = False
        if self._pending.size >= _FLUSH:
            self._settle()

    def _settle(self) -> None:
        if not self._settled and self._latest is not None:
            ticks, values = self._pending.take()
            order = np.argsort(ticks, kind="stable")
            cutoff = int(self._cutoff()[0])
            self._log = self._log.append(ticks[order], values[order], self._latest, cutoff)
            self._settled = True

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        twin = self.empty_like()
        twin._become(self)
        return twin

    def _become(self, other: Self) -> None:
        other._settle()
        self._log, self._latest = other._log, other._latest
        self._pending, self._settled = Pending(columns=2), True

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = sketches[0].empty_like()
        for sketch in sketches:
            sketch._settle()
        total = sum(sketch._log.total for sketch in sketches)
        if total > INT64_MAX:
            raise ValueError(f"the number of 1s must stay within int64, got {total}")
        merged._latest = max(s._latest for s in sketches if s._latest is not None)
        merged._log = TickLog.merge(
            [sketch._log for sketch in sketches], merged._latest, int(merged._cutoff()[0])
        )
        return merged

    @property
    def guarantee(self) -> float:
        """The relative error of the age; merging does not change it."""
        return WAVE.relative_error(self._log.tightness)

    def query(self, n: int = 1, now: Time | None = None) -> Estimate:
        """The age, in ticks at ``now``, of the n-th most recent 1.

        A ``ValueError`` if there are fewer 1s, or if that one is certainly older than the largest
        window; where this cannot be told, the interval says so.
        """
        n = validate.integer(n, "n", 1)
        since = self._since(None, now)
        self._settle()
        total = self._log.total
        if n > total or self._latest is None:
            raise NoAnswerError(f"n must be at most the number of 1s seen ({total}), got {n}")
        earliest, last = self._log.locate(total - n + 1, self._latest)
        if last <= since:
            raise NoAnswerError(f"the {n}-th most recent 1 is older than the largest window")
        tick = self._latest if now is None else to_tick(now, self.config.unit, "now")
        youngest, oldest = tick - last, tick - earliest
        return Estimate((youngest + oldest) / 2, float_below(youngest), float_above(oldest))

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        self._settle()
        return self._description(f"total={self._log.total}, latest={self._latest}")

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        for sketch in sketches:
            sketch._settle()
        logs = [sketch._log for sketch in sketches]
        counts = np.array([log.times.size for log in logs], dtype=np.int64)
        seen = np.array([s._latest is not None for s in sketches], dtype=np.int64)
        latest = [s._latest for s in sketches]
        writer.scalar(seen.view(np.uint64))
        known = np.array([tick for tick in latest if tick is not None], dtype=np.int64)
        writer.ragged(zigzag(known), seen)
        writer.scalar(np.array([log.total for log in logs], dtype=np.uint64))
        writer.scalar(counts.view(np.uint64))
        ages = [
            np.diff(np.append(log.times, tick or 0).view(np.uint64))
            for log, tick in zip(logs, latest, strict=True)
        ]
        writer.ragged(np.concatenate(ages), counts)
        gaps = [np.diff(log.ranks, prepend=0) - log.values for log in logs]
        writer.ragged(np.concatenate(gaps).view(np.uint64), counts)
        values = [log.values - 1 for log in logs]
        writer.ragged(np.concatenate(values).view(np.uint64), counts)

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        present = reader.integer(most=1)
        latest = reader.signed(present).tolist()
        totals = reader.integer().tolist()
        counts = reader.integer(most=2**40)
        ages = reader.ragged(counts).tolist()
        gaps = reader.integers(counts, most=2**62).tolist()
        values = reader.integers(counts, most=2**62).tolist()
        sketches = []
        begin = 0
        for seen, total, count in zip(present.tolist(), totals, counts.tolist(), strict=True):
            sketch = cls.__new__(cls)
            sketch.config = prototype.config
            sketch._start()
            rows = slice(begin, begin + count)
            begin += count
            if seen:
                sketch._latest = latest.pop(0)
                sketch._load(total, ages[rows], gaps[rows], values[rows])
            elif total or count:
                corrupt(cls.__name__, "an empty sketch with a state")
            sketches.append(sketch)
        return sketches

    def _load(self, total: int, ages: list[int], gaps: list[int], values: list[int]) -> None:
        """Python integers throughout, so that nothing can overflow before it is checked."""
        name = type(self).__name__
        assert self._latest is not None
        times, ranks = [], []
        time, rank = self._latest - sum(ages), 0
        if time <= INT64_MIN or self._latest <= INT64_MIN:
            corrupt(name, "times out of range")
        for age, gap, value in zip(ages, gaps, values, strict=True):
            times.append(time)
            time += age
            rank += gap + value + 1
            ranks.append(rank)
        if rank > INT64_MAX:
            corrupt(name, "the total does not fit int64")
        self._log = TickLog(
            self._log.tightness,
            total,
            np.array(times, dtype=np.int64),
            np.array(ranks, dtype=np.int64),
            np.array(values, dtype=np.int64) + 1,
        )
        flaw = self._log.flaw(self._latest, int(self._cutoff()[0]))
        if flaw:
            corrupt(name, flaw)
