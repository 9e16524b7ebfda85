"""Many sketches on level samples in one keyed sample."""

from collections.abc import Mapping
from itertools import chain
from sys import getsizeof
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recency.column import check_lengths
from recency.core.arrays import INT64_MIN, Int64Array, cutoffs
from recency.core.codec import RecordWriter
from recency.core.level_sample import group_of
from recency.core.sample_states import SampleStates, write_states
from recency.sketch import encode_records

if TYPE_CHECKING:
    from recency.sample_sketch import SampleSketch

_LEAST_FLUSH = 1 << 18  # taking elements in looks at all that are kept: spread it over many events
_BLOCK = 1 << 14  # rows looked at in one pass: temporaries that stay in the cache


class SampleColumn:
    """The key of an element is the number of its sketch."""

    def __init__(self, prototype: "SampleSketch", stream: int = 0) -> None:
        self._prototype, self._stream = prototype, stream
        self._sample = prototype.empty_like()._sample
        self._latest = np.empty(0, dtype=np.int64)
        self._seen = np.empty(0, dtype=np.bool_)
        self._by_id = np.empty(0, dtype=np.bool_)
        self._extra = prototype._extra_of_column(stream, 0)
        self._waiting: list[list[NDArray[Any]]] = []
        self._rows_waiting = 0
        self._settled = True

    def __len__(self) -> int:
        """How many sketches there are."""
        return self._latest.size

    def extend(self, size: int) -> None:
        """Have empty sketches up to number ``size - 1``."""
        more = size - len(self)
        if more > 0:
            further = self._prototype._extra_of_column(self._stream + len(self), more)
            self._extra = [
                np.append(old, new) for old, new in zip(self._extra, further, strict=True)
            ]
            self._latest = np.append(self._latest, np.full(more, INT64_MIN))
            self._seen = np.append(self._seen, np.zeros(more, dtype=np.bool_))
            self._by_id = np.append(self._by_id, np.zeros(more, dtype=np.bool_))

    def update_many(self, numbers: Int64Array, arguments: Mapping[str, Any], size: int) -> None:
        """``update_many`` for the sketch with each row's number, of ``size`` sketches then."""
        before = len(self)
        self.extend(size)
        try:
            self._update_many(numbers, arguments)
        except BaseException:
            self._extra = [column[:before] for column in self._extra]
            self._latest, self._seen = self._latest[:before], self._seen[:before]
            self._by_id = self._by_id[:before]
            raise

    def _update_many(self, numbers: Int64Array, arguments: Mapping[str, Any]) -> None:
        check_lengths(numbers.size, arguments)
        ticks, columns, counted = self._prototype._rows_for_column(numbers, arguments, self._extra)
        if not numbers.size:
            return
        np.maximum.at(self._latest, numbers, ticks)
        self._seen[numbers] = True
        if self._prototype._knows_ids and arguments.get("id") is not None:
            self._by_id[numbers] = True
        self._settled = False
        rows = [numbers, ticks, *columns]
        if counted is None:
            rows = [column.copy() for column in rows]  # the caller may reuse the memory
        else:
            index = np.flatnonzero(counted)
            rows = [column[index] for column in rows]
        self._waiting.append(rows)
        self._rows_waiting += rows[0].size
        if self._rows_waiting >= max(_LEAST_FLUSH, self._sample.times.size):
            self._work_in()

    def settle(self) -> None:
        """Work in what waits."""
        if not self._settled:
            self._work_in()
            self._settled = True

    def _work_in(self) -> None:
        cutoff = cutoffs(self._latest, self._prototype.config.window)
        none = self._sample
        survivors = [[none.groups[:0], none.times[:0], *(each[:0] for each in none.columns)]]
        for batch in self._waiting:
            for begin in range(0, batch[0].size, _BLOCK):
                numbers, ticks, coins, *others = (
                    column[begin : begin + _BLOCK] for column in batch
                )
                rows = [coins, ticks, *others]
                levels = self._prototype._levels(rows)
                groups = group_of(numbers, levels)
                kept = self._sample.may_be_kept(groups, ticks) & (ticks > cutoff[numbers])
                if not kept.all():
                    index = np.flatnonzero(kept)
                    groups, levels = groups[index], levels[index]
                    rows = [column[index] for column in rows]
                survivors.append([groups, rows[1], *self._prototype._further(rows, levels)])
        self._waiting, self._rows_waiting = [], 0
        groups, times, *further = (
            np.concatenate(column) for column in zip(*survivors, strict=True)
        )
        self._sample = self._sample.absorb(groups, times, tuple(further), cutoff)

    def sketch(self, number: int) -> "SampleSketch":
        """One of them, on its own."""
        self.settle()
        sketch = self._prototype.empty_like()
        sketch._sample = self._sample.at(number)
        sketch._latest = int(self._latest[number]) if self._seen[number] else None
        sketch._set_extra([int(column[number]) for column in self._extra])
        sketch._by_id = bool(self._by_id[number])
        return sketch

    def frames(self, finished: bool) -> list[bytes]:
        """``to_bytes`` of all."""
        self.settle()
        extra = self._extra
        if finished:
            drew_coins = self._seen & ~self._by_id
            extra = list(self._prototype._finished_extra(self._extra, drew_coins))
        latest = np.where(self._seen, self._latest, 0)
        states = SampleStates(self._sample, self._seen, latest, tuple(extra), self._by_id)
        writer = RecordWriter(len(self))
        write_states(states, self._prototype._codecs(), writer)
        return encode_records(self._prototype, writer)

    @property
    def nbytes(self) -> int:
        """Memory held by elements and by rows that wait, their items included."""
        kept = [self._sample.groups, self._sample.times, *self._sample.columns]
        columns = [*kept, *(column for rows in self._waiting for column in rows)]
        objects = [column for column in columns if column.dtype == object]
        held = sum(column.nbytes for column in columns) + 40 * len(self)
        return held + sum(map(getsizeof, chain.from_iterable(objects)))
