"""What sketches on a level sample have in common: a buffer, a clock, exact merging, bytes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recency.column import Column
from recency.core.arrays import BoolArray, Int64Array, UInt64Array, offsets
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.hashing import hash_items, is_one
from recency.core.level_sample import Columns, LevelSample, group_of, take
from recency.core.sample_states import ColumnCodec, SampleStates, read_states, write_states
from recency.core.sizing import count_interval
from recency.estimate import Estimate
from recency.pending import Pending
from recency.sample_column import SampleColumn
from recency.windowed import WindowedSketch

_ROWS = 4096  # single updates that wait as they came
_MOVED = ("_latest", "_least", "_largest", "_index", "_by_id", "_settled")  # by an update, at once
_ABSORB = 1 << 14  # survivors collected, at least, before the sample takes them in


class SampleSketch(WindowedSketch):
    """A sketch whose state is a level sample of one key, and a clock.

    Times may come in any order, and merging is exact: the state is a function of the set of
    elements (see :mod:`recency.core.level_sample`).
    """

    merge_law = "exact"
    _distinct: ClassVar[bool]
    _pending_columns: int
    _least_flush: ClassVar[int] = 1 << 18
    """Taking elements in costs some 5 ms: it is spread over so many events, at least."""
    _looks_ahead: bool = False
    """Whether edges are later than the clock, not earlier."""
    _block: int = 1 << 13
    """Rows looked at in one pass: temporaries that stay in the cache."""
    _level_range: ClassVar[tuple[int, int]] = (0, 63)
    _knows_ids: ClassVar[bool] = False
    """Whether ids make coins, and the state says if any came."""

    def _start(self) -> None:
        self._latest = None
        self._sample = LevelSample.empty(
            self.config.capacity, self._distinct, self._kinds_of_columns()
        )
        self._pending = Pending(columns=self._pending_columns)
        self._rows: list[tuple[Any, ...]] = []  # single updates, as they came
        self._settled = True
        self._by_id = False

    # --- to be written by each sketch ---

    def _codecs(self) -> Sequence[ColumnCodec]:
        """How the further columns of the elements are written."""
        raise NotImplementedError

    def _kinds_of_columns(self) -> Sequence[Any]:
        """The types of the further columns."""
        return [codec.dtype for codec in self._codecs()]

    def _samples(self) -> int:
        """How many samples there are, with keys from 0 on."""
        return 1

    _samples_vary: ClassVar[bool] = False
    """Whether that differs between sketches; it is the last of the further numbers then."""

    def _newest(self) -> int:
        """What edges and times are written relative to."""
        return self._latest or 0

    def _buffer_rows(self) -> None:
        """Move the single updates to the buffer, if there are any."""
        raise NotImplementedError

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        """The levels of rows that waited; the second of their columns is the time."""
        raise NotImplementedError

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        """The further columns of such rows."""
        raise NotImplementedError

    def _not_needed(
        self, groups: Int64Array, times: Int64Array, further: Columns
    ) -> NDArray[np.bool_] | None:
        """Elements that others of the same block make superfluous, if that is cheap to tell."""
        return None

    def _extra(self) -> tuple[int, ...]:
        """Further numbers of the state, at least 0."""
        return ()

    def _set_extra(self, extra: Sequence[int]) -> None:
        """Take them back."""

    def _pruned(self, sample: LevelSample) -> LevelSample:
        """A sample without levels that are of no use any more."""
        return sample

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        """What is wrong with states that were read, if anything."""
        return None

    def _column(self, merge_levels: int = 0, stream: int = 0) -> Column:
        """Many of them in one sample."""
        return SampleColumn(self, stream)

    def _rows_for_column(
        self, numbers: Int64Array, arguments: Mapping[str, Any], extra: Sequence[Int64Array]
    ) -> tuple[Int64Array, list[NDArray[Any]], BoolArray | None]:
        """Checked arguments of ``update_many`` for the sketches with these numbers.

        Times, what :meth:`_levels` takes besides them, and which rows count (None: all). Moves
        ``extra``, the further numbers of those sketches, on.
        """
        raise NotImplementedError

    def _extra_of_column(self, first: int, size: int) -> list[Int64Array]:
        """The further numbers of ``size`` empty sketches, of streams from ``first`` on."""
        return []

    def _finished_extra(
        self, extra: Sequence[Int64Array], drew_coins: BoolArray
    ) -> Sequence[Int64Array]:
        """The further numbers as :meth:`_finish` leaves them."""
        return extra

    # --- update ---

    def _hashed_ids(self, id: Any, columns: dict[str, NDArray[Any]]) -> UInt64Array | None:
        """Hashes of ids, if there are any, which join the columns that must have one length."""
        if id is None:
            return None
        hashes = hash_items(id, self.config.seed, "id")
        columns["id"] = hashes.reshape(()) if is_one(id) else hashes
        return hashes

    def _add_row(self, row: tuple[Any, ...], tick: int) -> None:
        """Keep one checked update; hashing many at a time is much cheaper."""
        if len(self._rows) >= _ROWS:
            self._buffer_rows()
        self._rows.append(row)
        self._latest = tick if self._latest is None else max(self._latest, tick)
        self._settled = False

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """A decay of the user's may raise when rows are worked in: then none of them was seen."""
        before = {name: getattr(self, name) for name in _MOVED if hasattr(self, name)}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def _add(self, columns: Sequence[Any], newest: int, size: int) -> None:
        """Buffer ``size`` checked rows, or work them in if there are many."""
        room = self._room()
        if self._pending.size and self._pending.size + size > room:
            self._flush()
        self._latest = newest if self._latest is None else max(self._latest, newest)
        self._settled = False
        if size < room:
            self._pending.add_block(*columns, size=size)
        else:
            self._work_in([np.broadcast_to(column, size) for column in columns])
            self._settled = True

    def _room(self) -> int:
        return max(self._least_flush, 2 * self._sample.times.size)

    def _flush(self) -> None:
        """Work in what waits; there is more to come."""
        self._work_in(self._pending.look())
        self._pending.clear()

    def _settle(self) -> None:
        """Work in what waits and let old elements expire; when makes no difference."""
        self._buffer_rows()
        if not self._settled:
            self._flush()
            self._pending.release()
            self._settled = True

    def _work_in(self, columns: Sequence[Int64Array]) -> None:
        """All rows or none: a decay of the user's may raise, or the user interrupt."""
        before = self._sample
        try:
            self._take_in(columns)
        except BaseException:
            self._sample = before
            raise

    def _take_in(self, columns: Sequence[Int64Array]) -> None:
        """Last rows first: mostly they are the newest, and raise the edges that thin the rest."""
        cutoff = self._cutoff()
        survivors: list[tuple[Int64Array, Int64Array, Columns]] = []
        waiting = 0
        end = columns[0].size
        while end > 0:
            begin = max(0, end - self._block)
            elements = self._elements([column[begin:end] for column in columns], cutoff)
            survivors.append(elements)
            waiting += elements[1].size
            if waiting >= max(_ABSORB, self._sample.times.size // 2):
                self._absorb(survivors, cutoff)
                survivors, waiting = [], 0
            end = begin
        self._absorb(survivors, cutoff)

    def _elements(
        self, rows: Sequence[Int64Array], cutoff: Int64Array, key: int = 0
    ) -> tuple[Int64Array, Int64Array, Columns]:
        """What rows that waited bring to one sample, without most of what it would not keep."""
        levels = self._levels(rows)
        kept = self._sample.may_be_kept(group_of(key, levels), rows[1]) & (rows[1] > cutoff[key])
        if not kept.all():
            index = np.flatnonzero(kept)
            rows, levels = [column[index] for column in rows], levels[index]
        groups, times, further = group_of(key, levels), rows[1], self._further(rows, levels)
        not_needed = self._not_needed(groups, times, further)
        if not_needed is not None and not_needed.any():
            groups, times, further = take(np.flatnonzero(~not_needed), groups, times, further)
        return groups, times, further

    def _absorb(
        self, blocks: list[tuple[Int64Array, Int64Array, Columns]], cutoff: Int64Array
    ) -> None:
        none = LevelSample.empty(0, False, [column.dtype for column in self._sample.columns])
        blocks = [*blocks, (none.groups, none.times, none.columns)]
        groups, times, further = zip(*blocks, strict=True)
        sample = self._sample.absorb(
            np.concatenate(groups),
            np.concatenate(times),
            tuple(np.concatenate(column) for column in zip(*further, strict=True)),
            cutoff,
        )
        self._sample = self._pruned(sample)

    # --- questions ---

    def _window_sample(self, since: int) -> tuple[int, NDArray[np.intp], NDArray[np.bool_]]:
        """ℓ, the elements of the window that are present, and which of them are of the sample."""
        level, in_sample = self._level_of_window(since)
        present = np.flatnonzero(self._sample.times > since)
        return level, present, in_sample[present]

    def _level_of_window(self, since: int) -> tuple[int, NDArray[np.bool_]]:
        """ℓ, and which elements, of whatever time, are at a level from ℓ on."""
        self._settle()
        level = int(self._sample.query_levels(np.array([since]))[0])
        return level, self._sample.groups >= group_of(0, np.array(level))

    def _scaled(self, n: int, level: int, certain: float = 0.0) -> Estimate:
        """``certain``, and what n sampled elements that stand for 2ˡ each stand for."""
        scale = 2.0**level
        bounds = count_interval(n, self.config.confidence)
        value, lower, upper = (certain + count * scale for count in (n, *bounds))
        return Estimate(value, lower, upper, self.config.confidence)

    # --- merge ---

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        twin = self.empty_like()
        twin._become(self)
        return twin

    def _become(self, other: Self) -> None:
        # Samples are values: sharing one is as good as copying it.
        other._settle()
        self._sample, self._latest = other._sample, other._latest
        self._set_extra(other._extra())
        self._by_id = other._by_id
        self._pending, self._settled = Pending(columns=self._pending_columns), True

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = sketches[0].empty_like()
        for sketch in sketches:
            sketch._settle()
        merged._latest = max(s._latest for s in sketches if s._latest is not None)
        merged._set_extra(cls._merged_extra([sketch._extra() for sketch in sketches]))
        merged._by_id = any(sketch._by_id for sketch in sketches)
        sample = LevelSample.merge([s._sample for s in sketches], merged._cutoff())
        merged._sample = merged._pruned(sample)
        return merged

    @classmethod
    def _merged_extra(cls, extras: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        return ()

    # --- bytes ---

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        for sketch in sketches:
            sketch._settle()
        samples = [sketch._stored() for sketch in sketches]
        latest = np.array([sketch._newest() for sketch in sketches], dtype=np.int64)
        extras = np.array([sketch._extra() for sketch in sketches], dtype=np.int64)
        counts = np.array([sketch._samples() for sketch in sketches])
        states = SampleStates(
            LevelSample.side_by_side(samples, offsets(counts)[:-1]),
            np.array([sketch._latest is not None for sketch in sketches]),
            latest,
            tuple(np.ascontiguousarray(extras.reshape(len(sketches), -1).T)),
            np.array([sketch._by_id for sketch in sketches]),
        )
        first = sketches[0]
        write_states(states, first._codecs(), writer, counts, first._looks_ahead)

    def _stored(self) -> LevelSample:
        """The sample as it is written."""
        return self._sample

    def _restore(self, sample: LevelSample) -> None:
        """The inverse of :meth:`_stored`; clock and further numbers are in place."""
        self._sample = sample

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        states = read_states(
            prototype._sample,
            prototype._window,
            cls._level_range,
            len(prototype._extra()),
            prototype._codecs(),
            reader,
            None if cls._samples_vary else prototype._samples(),
            prototype._looks_ahead,
            cls._knows_ids,
        )
        flaw = cls._check(prototype, states)
        if flaw:
            corrupt(cls.__name__, flaw)
        sketches = []
        counts = states.extra[-1] if cls._samples_vary else prototype._samples()
        firsts = offsets(np.broadcast_to(counts, reader.size))
        for i, sample in enumerate(states.sample.split(firsts)):
            sketch = cls.__new__(cls)
            sketch.config = prototype.config
            sketch._start()
            sketch._latest = int(states.latest[i]) if states.seen[i] else None
            sketch._set_extra([int(column[i]) for column in states.extra])
            sketch._by_id = states.by_id is not None and bool(states.by_id[i])
            sketch._restore(sample)
            sketches.append(sketch)
        return sketches


def at_least(estimate: Estimate, seen: float, surely: float | None = None) -> Estimate:
    """The estimate, where ``seen`` of it was seen; ``surely``, if sums of that are not exact."""
    lower = max(estimate.lower, seen if surely is None else surely)
    value, upper = (max(bound, seen) for bound in (estimate.value, estimate.upper))
    return Estimate(value, lower, upper, estimate.confidence)


def matching(where: Callable[..., Any], *columns: NDArray[Any]) -> BoolArray:
    """Which rows a predicate of columns chooses, if it answers as it should."""
    size = columns[0].size
    matches = np.asarray(where(*columns))
    if not size and not matches.size:
        return np.zeros(0, dtype=np.bool_)
    if matches.dtype != np.bool_:
        raise TypeError(f"where must return booleans, got {matches.dtype}")
    if matches.shape != (size,):
        raise ValueError(f"where must return one for each of {size}, got {matches.shape}")
    return matches
