"""Sketches that sample *events*: every event counts, and draws a coin of its own.

The coin is a hash of the seed, the ``stream``, the running index of the event in this sketch, its
value and its time; or of the event's ``id`` if one is given (ids make the coin only: events with
equal ids still count twice). Without the index two events with equal value and time would share a
coin, and the independence that the error bounds rest on would be gone. Without ``stream``, sketches
that are built side by side would draw the same coins for the same indices, and errors would add up
instead of averaging out.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import (
    BoolArray,
    FloatArray,
    Int64Array,
    UInt64Array,
    nth_of_its_kind,
)
from recency.core.hashing import (
    check_one,
    hash_events,
    hash_integers,
    hash_items,
    hash_rows,
)
from recency.core.level_sample import Columns
from recency.core.sample_states import ColumnCodec, NumberCodec, SampleStates
from recency.sample_sketch import SampleSketch
from recency.timeunit import to_tick, to_ticks
from recency.windowed import Time

_MOST_INDEX = 2**63 - 1  # from there on all events share it; their values and times differ


class DrawsCoins(SampleSketch):
    """A level sample whose events draw coins: the state of these is (stream, index)."""

    _stream: int
    _index: int

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sketch of the same configuration, of this or another ``stream``."""
        empty = super().empty_like()
        empty._stream = self._stream if stream is None else validate.integer(stream, "stream", 0)
        return empty

    def _finish(self, prototype: Self) -> None:
        self._stream = prototype._stream

    def _extra(self) -> tuple[int, ...]:
        return self._stream, self._index

    def _set_extra(self, extra: Sequence[int]) -> None:
        self._stream, self._index = extra

    @classmethod
    def _merged_extra(cls, extras: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        streams, indices = zip(*extras, strict=True)
        return min(streams), min(sum(indices), _MOST_INDEX)

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
        return None

    # --- update ---

    def _update(self, value: Any, at: Time | None, id: Any) -> None:
        number = validate.number(value, "value", self._least_value, self._most_value)
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
        values = validate.numbers(value, "value", self._least_value, self._most_value)
        ticks = to_ticks(at, self.config.unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "at": ticks}
        coins = self._hashed_ids(id, columns)
        if size is None:
            size = validate.common_length(columns)
        values = np.broadcast_to(values, size) + 0.0  # a copy, in which zero has one sign
        return (
            values,
            np.broadcast_to(ticks, size),
            None if coins is None else np.broadcast_to(coins, size),
        )

    def _buffer(
        self, values: FloatArray, ticks: NDArray[np.int64], coins: UInt64Array | None
    ) -> None:
        size = values.size
        bits = values.view(np.int64)
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

    def _finished_extra(self, extra: Sequence[Int64Array]) -> list[Int64Array]:
        stream, index = extra
        return [np.full_like(stream, self._stream), index]

    def _counts(self, values: FloatArray) -> NDArray[np.bool_] | None:
        """Which values can ever contribute; None if all do."""
        return None

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        return (columns[2].view(np.float64),)

    def _buffer_rows(self) -> None:
        rows, self._rows = self._rows, []
        for has_id, run in groupby(rows, key=lambda row: row[2] is not None):
            values, ticks, ids = zip(*run, strict=True)
            coins = hash_items(list(ids), self.config.seed, "id") if has_id else None
            self._buffer(np.array(values) + 0.0, np.array(ticks, dtype=np.int64), coins)

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        seen = f"{self._index + len(self._rows)} events, latest={self._latest}"
        return self._description(seen)
