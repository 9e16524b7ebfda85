"""Sketches that sample *events*: every event counts, and draws a coin of its own.

The coin is a hash of the seed, the ``stream``, the running index of the event in this sketch, its
value and its time; or of the event's ``id``, its time and its value if an id is given. Without the
index two events with equal value and time would share a coin, and the independence that the error
bounds rest on would be gone. Without ``stream``, sketches that are built side by side would draw
the same coins for the same indices, and errors would add up instead of averaging out.

Ids make the coin only: an event that is repeated, id, time and value, counts as often as it comes.
But its repetitions share one coin, so intervals are made for what the sample shows of that (see
:mod:`recency.core.dispersion`).
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recency.coins import warn_of_shared_coins as warn_of_shared_coins
from recency.core import validate
from recency.core.arrays import (
    BoolArray,
    FloatArray,
    Int64Array,
    UInt64Array,
    nth_of_its_kind,
)
from recency.core.dispersion import SHARED, dispersion, sharing, wider
from recency.core.hashing import (
    chained,
    check_one,
    hash_events,
    hash_integers,
    hash_items,
    hash_rows,
)
from recency.core.level_sample import Columns
from recency.core.sample_states import ColumnCodec, NumberCodec, SampleStates
from recency.core.sizing import sum_interval
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.sample_sketch import SampleSketch
from recency.timeunit import to_tick, to_ticks
from recency.windowed import Time

_MOST_INDEX = 2**63 - 1  # from there on all events share it; their values and times differ


class DrawsCoins(SampleSketch):
    """A level sample whose events draw coins: the state of these is (stream, index)."""

    _stream: int
    _index: int
    _knows_ids = True

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sketch of the same configuration, of this or another ``stream``."""
        empty = super().empty_like()
        empty._stream = self._stream if stream is None else validate.integer(stream, "stream", 0)
        return empty

    def _finish(self, prototype: Self) -> None:
        if self._by_id or self.is_empty:  # else it is the stream that its coins came from
            self._stream = prototype._stream

    def _extra(self) -> tuple[int, ...]:
        return self._stream, self._index

    def _set_extra(self, extra: Sequence[int]) -> None:
        self._stream, self._index = extra

    @classmethod
    def _merged_extra(cls, extras: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        streams, indices = zip(*extras, strict=True)
        return min(streams), min(sum(indices), _MOST_INDEX)

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = super()._merged(sketches)
        cls._warn_of_shared_coins(sketches)
        return merged

    @classmethod
    def _warn_of_shared_coins(cls, sketches: Sequence[Self]) -> None:
        drawn = [(each, each._event_times()) for each in sketches if not each._by_id]
        warn_of_shared_coins(
            [
                (sketch._stream, int(times.min()), int(times.max()))
                for sketch, times in drawn
                if times.size
            ]
        )

    def _event_times(self) -> Int64Array:
        """The times of the elements that are kept."""
        return self._sample.times

    def _next_coins(self, bits: Int64Array, ticks: Int64Array) -> UInt64Array:
        """Coins of events that have none; see the module."""
        return hash_events(self.config.seed, self._stream, self._index, bits, ticks)

    def _count(self, events: int) -> None:
        self._index = min(self._index + events, _MOST_INDEX)


class EventSketch(DrawsCoins):
    """A level sample of events with a number each, and the state (stream, index) of its coins."""

    _distinct = False
    _pending_columns = 3  # coin, time, value
    _least_value: ClassVar[float]
    _most_value: ClassVar[float]
    _exact_values: ClassVar[bool] = False
    """Whether answers are values of the stream, which must not be rounded then."""

    def _begin(self, stream: int) -> None:
        self._start()
        self._stream = validate.integer(stream, "stream", 0)

    def _start(self) -> None:
        super()._start()
        self._stream = 0
        self._index = 0

    def _codecs(self) -> Sequence[ColumnCodec]:
        return [NumberCodec()]

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        _, index = states.extra
        kept = np.bincount(states.sample.keys, minlength=index.size)
        if (index[~states.seen] > 0).any() or (kept > index).any():
            return "more events than were seen"
        if (index[states.sample.edge_keys] <= prototype.config.capacity).any():
            return "a level that has forgotten events, and fewer were seen than it has room for"
        return None

    # --- update ---

    def _update(self, value: Any, at: Time | None, id: Any) -> None:
        number = validate.number(
            value, "value", self._least_value, self._most_value, exact=self._exact_values
        )
        tick = to_tick(at, self.config.unit)
        if id is not None:
            check_one(id, "id")
        self._add_row((number, tick, id), tick)

    def _update_many(self, value: Any, at: Any, id: Any) -> None:
        values, ticks, coins = self._checked(value, at, id)
        if values.size:
            self._buffer_rows()
            self._buffer(values, ticks, coins)

    def _checked(
        self, value: Any = 1, at: Any = None, id: Any = None, size: int | None = None
    ) -> tuple[FloatArray, Int64Array, UInt64Array | None]:
        """Values, times, and the coins of ids, one for each row."""
        values = validate.numbers(
            value, "value", self._least_value, self._most_value, exact=self._exact_values
        )
        ticks = to_ticks(at, self.config.unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "at": ticks}
        ids = self._hashed_ids(id, columns)
        if size is None:
            size = validate.common_length(columns)
        values = np.broadcast_to(values, size) + 0.0  # a copy, in which zero has one sign
        ticks = np.broadcast_to(ticks, size)
        return values, ticks, None if ids is None else _coins(ids, ticks, values)

    def _buffer(
        self, values: FloatArray, ticks: NDArray[np.int64], coins: UInt64Array | None
    ) -> None:
        size = values.size
        bits = values.view(np.int64)
        self._by_id |= coins is not None
        if coins is None:
            coins = self._next_coins(bits, ticks)
        newest = int(ticks.max())
        self._count(size)
        kept = self._counts(values)
        if kept is not None:
            coins = coins[kept]
            ticks, bits, size = ticks[kept], bits[kept], int(kept.sum())
        self._add([coins.view(np.int64), ticks, bits], newest, size)

    def _rows_for_column(
        self, numbers: Int64Array, arguments: Mapping[str, Any], extra: Sequence[Int64Array]
    ) -> tuple[Int64Array, list[NDArray[Any]], BoolArray | None]:
        values, ticks, coins = self._checked(**arguments, size=numbers.size)
        stream, index = extra
        bits = values.view(np.int64)
        if coins is None:
            seeds = hash_integers(stream, self.config.seed)
            position = index.view(np.uint64)[numbers] + nth_of_its_kind(numbers).view(np.uint64)
            coins = hash_rows(seeds[numbers], position.view(np.int64), bits, ticks)
        added = np.bincount(numbers, minlength=index.size)
        np.minimum(index, _MOST_INDEX - added, out=index)
        index += added
        return ticks, [coins.view(np.int64), bits], self._counts(values)

    def _extra_of_column(self, first: int, size: int) -> list[Int64Array]:
        return [np.arange(first, first + size), np.zeros(size, dtype=np.int64)]

    def _finished_extra(
        self, extra: Sequence[Int64Array], drew_coins: BoolArray
    ) -> Sequence[Int64Array]:
        stream, index = extra
        return [np.where(drew_coins, stream, self._stream), index]

    def _counts(self, values: FloatArray) -> NDArray[np.bool_] | None:
        """Which values can ever contribute; None if all do."""
        return None

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        return (columns[2].view(np.float64),)

    def _buffer_rows(self) -> None:
        rows, self._rows = self._rows, []
        for has_id, run in groupby(rows, key=lambda row: row[2] is not None):
            values, ticks, ids = zip(*run, strict=True)
            columns = np.array(ticks, dtype=np.int64), np.array(values) + 0.0
            hashes = hash_items(list(ids), self.config.seed, "id") if has_id else None
            coins = None if hashes is None else _coins(hashes, *columns)
            self._buffer(columns[1], columns[0], coins)

    # --- questions ---

    def _widening(self, rows: NDArray[np.intp], level: int) -> float:
        """By how much the variance of a count of sampled events is more than that of Poisson's.

        Refuses samples that independent coins do not lead to.
        """
        sample, capacity = self._sample, self.config.capacity
        classes = sample.times[rows], sample.columns[0][rows].view(np.int64)
        keys = np.zeros(rows.size, dtype=np.int64)
        spread = dispersion(keys, sample.levels[rows] - level, classes, 1)
        factor = wider(*spread, self.config.confidence)
        if sharing(np.array([rows.size]), factor, capacity)[0]:
            raise NoAnswerError(SHARED.format(capacity, level - 1, rows.size))
        return float(factor[0])

    def _counted(
        self,
        rows: NDArray[np.intp],
        level: int,
        certain: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> Estimate:
        """``certain`` (with bounds), and what sampled events that stand for 2ˡ each stand for."""
        factor = self._widening(rows, level)
        unit = factor * 2.0**level
        lower, upper = sum_interval(rows.size / factor, rows.size / factor, self.config.confidence)
        # From nothing sampled nothing follows: all events may have one coin.
        most = certain[2] + upper * unit if rows.size else np.inf
        value = certain[0] + rows.size * 2.0**level
        return Estimate(value, certain[1] + lower * unit, most, self.config.confidence)

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        seen = f"{self._index + len(self._rows)} events, latest={self._latest}"
        return self._description(seen)


def _coins(ids: UInt64Array, ticks: Int64Array, values: FloatArray) -> UInt64Array:
    """Coins of events with ids: of integers Spark's ``xxhash64(seed, id, ticks, value)``."""
    return chained(np.broadcast_to(ids, ticks.size), ticks, values.view(np.int64))
