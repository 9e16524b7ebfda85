"""The n-th most recent 1 (Gibbons & Tirthapura 2004, §5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from recency.core import validate
from recency.core.arrays import (
    INT64_MAX,
    Int64Array,
    cutoffs,
    float_above,
    float_below,
    is_sorted,
    offsets,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt, zigzag
from recency.core.rank_log import WAVE
from recency.core.segments import ages_of, running_sums, segment_sums, times_of
from recency.core.tick_log import TickLog
from recency.errors import NoAnswerError, OutOfOrderError
from recency.estimate import Estimate
from recency.pending import Pending
from recency.timeunit import UNITS, to_duration, to_tick, to_ticks
from recency.windowed import Duration, Time, WindowedSketch

_LEAST_FLUSH = 1 << 16  # rows that wait, or that one kernel call takes


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
        self._start(TickLog.empty(WAVE.tightness(self.config.relative_error)))

    def _start(self, log: TickLog) -> None:
        self._log = log
        self._latest = None
        self._total = int(log.totals[0])  # those that wait included
        self._pending = Pending(columns=1)
        self._settled = True

    def update(self, value: int = 1, *, at: Time) -> None:
        """See a 1, or a 0, which only moves the clock, at a time not before ``latest``."""
        value = validate.integer(value, "value", 0, 1)
        tick = to_tick(at, self.config.unit)
        self._refuse_late(tick)
        self._check_total(value)
        if value:
            self._pending.add_row(tick)
        self._advance(tick, value)
        if self._pending.size >= self._flush_size():
            self._settle()

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
        ones = ticks if values.all() else ticks[values > 0]
        self._check_total(ones.size)
        self._advance(newest, ones.size)
        if self._pending.size + ones.size < self._flush_size():
            self._pending.add_block(ones, size=ones.size)
        else:
            self._settle()  # what waits is not later than these
            self._work_in(ones)

    def _refuse_late(self, tick: int) -> None:
        if self._latest is not None and tick < self._latest:
            raise OutOfOrderError(
                f"at must not be before the latest time seen ({self._latest}), got {tick}"
            )

    def _check_total(self, added: int) -> None:
        if self._total + added > INT64_MAX:
            raise ValueError(
                f"the number of 1s must stay within int64, got {self._total} + {added}"
            )

    def _advance(self, tick: int, ones: int) -> None:
        """Take note of updates that were checked."""
        self._latest = tick if self._latest is None else max(self._latest, tick)
        self._total += ones
        self._settled = False

    def _flush_size(self) -> int:
        return max(_LEAST_FLUSH, self._log.times.size)

    def _settle(self) -> None:
        """Work in what waits and let old items expire. When this happens makes no difference."""
        if not self._settled:
            self._work_in(*self._pending.take())
            self._pending.release()
            self._settled = True

    def _work_in(self, ticks: Int64Array) -> None:
        if not is_sorted(ticks):
            ticks = np.sort(ticks)
        latest, cutoff = np.array([self._latest]), self._cutoff()
        begin, end = 0, self._flush_size()
        while begin < max(ticks.size, 1):
            batch = ticks[begin:end]
            key, one = (np.broadcast_to(np.int64(each), batch.size) for each in (0, 1))
            self._log = self._log.append(key, batch, one, latest, cutoff)
            begin, end = end, end + self._flush_size()

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        twin = self.empty_like()
        twin._become(self)
        return twin

    def _become(self, other: Self) -> None:
        # Logs are values: sharing one is as good as copying it.
        other._settle()
        self._start(other._log)
        self._latest = other._latest

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = sketches[0].empty_like()
        for sketch in sketches:
            sketch._settle()
            merged._check_total(sketch._total)
            merged._total += sketch._total
        merged._latest = max(s._latest for s in sketches if s._latest is not None)
        logs = TickLog.concatenate([sketch._log for sketch in sketches])
        into_one = np.zeros(len(sketches), dtype=np.int64)
        merged._log = logs.merge(into_one, np.array([merged._latest]), merged._cutoff())
        return merged

    @property
    def guarantee(self) -> float:
        """The relative error of the age; merging does not change it."""
        return float(WAVE.relative_error(self._log.tightness))

    def query(self, n: int = 1, now: Time | None = None) -> Estimate:
        """The age, in ticks at ``now``, of the n-th most recent 1.

        A ``ValueError`` if there are fewer 1s, or if that one is certainly older than the largest
        window; where this cannot be told, the interval says so.
        """
        n = validate.integer(n, "n", 1)
        since = self._since(None, now)
        self._settle()
        if n > self._total or self._latest is None:
            raise NoAnswerError(f"n must be at most the number of 1s seen ({self._total}), got {n}")
        rank = np.array([self._total - n + 1])
        earliest, last = (int(x[0]) for x in self._log.locate(rank, np.array([self._latest])))
        if last <= since:
            raise NoAnswerError(f"the {n}-th most recent 1 is older than the largest window")
        tick = self._now(now)
        youngest, oldest = tick - last, tick - earliest
        return Estimate((youngest + oldest) / 2, float_below(youngest), float_above(oldest))

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        return self._description(f"total={self._total}, latest={self._latest}")

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        for sketch in sketches:
            sketch._settle()
        log = TickLog.concatenate([sketch._log for sketch in sketches])
        counts = np.diff(log.starts)
        seen = np.array([sketch._latest is not None for sketch in sketches], dtype=np.int64)
        latest = np.array([sketch._latest or 0 for sketch in sketches], dtype=np.int64)
        writer.scalar(seen.view(np.uint64))
        writer.ragged(zigzag(latest[seen > 0]), seen)
        writer.scalar(log.totals.view(np.uint64))
        writer.scalar(counts.view(np.uint64))
        writer.ragged(ages_of(log.times, log.starts, latest), counts)
        writer.ragged(log.gaps().view(np.uint64), counts)
        writer.ragged((log.values - 1).view(np.uint64), counts)

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        present = reader.integer(most=1)
        seen = present > 0
        latest = np.zeros(reader.size, dtype=np.int64)
        latest[seen] = reader.signed(present)
        totals, counts = reader.integer(), reader.integer()
        ages = reader.ragged(counts)
        gaps, values = reader.integers(counts), reader.integers(counts)
        if totals[~seen].any() or counts[~seen].any():
            corrupt(reader.name, "an empty sketch with a state")
        starts = offsets(counts)
        times = times_of(ages, starts, latest, reader.name)
        steps = gaps.view(np.uint64) + values.view(np.uint64) + np.uint64(1)  # each part below 2⁶³
        if (segment_sums(steps, starts, reader.name) > np.uint64(INT64_MAX)).any():
            corrupt(reader.name, "the total does not fit int64")
        ranks = running_sums(steps, starts).view(np.int64)
        log = TickLog(prototype._log.tightness, totals, starts, times, ranks, values + 1)
        flaw = log.flaw(latest, cutoffs(latest, prototype.config.window))
        if flaw:
            corrupt(reader.name, flaw)
        sketches = []
        for own, is_seen, tick in zip(log.split(), seen.tolist(), latest.tolist(), strict=True):
            sketch = cls.__new__(cls)
            sketch.config = prototype.config
            sketch._start(own)
            sketch._latest = tick if is_seen else None
            sketches.append(sketch)
        return sketches
