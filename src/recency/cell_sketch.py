"""Sketches of rows of cells, each a sliding-window counter: what they do but for their questions.

Every row counts every event once, in the cell that the item hashes to; see
:mod:`recency.core.geometry`.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.core import counter_states, geometry, sample_states, validate
from recency.core.arrays import INT64_MAX, Int64Array, UInt64Array, exact_sum, is_sorted
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.counter_states import CounterStates
from recency.core.hashing import chained, check_one, hash_events, hash_items, is_one
from recency.core.level_sample import LevelSample
from recency.core.rank_log import EXPONENTIAL, MOST_LEVELS, WAVE, RankLog, Rule, tightness_for_tree
from recency.core.sample_states import NumberCodec, SampleStates
from recency.core.sizing import kept_relative_error
from recency.ecm_cells import Counts, LogCells, SampleCells
from recency.estimate import Estimate
from recency.event_sketch import warn_of_shared_coins
from recency.ordered import OrderedSketch
from recency.pending import Pending
from recency.windowed import Duration, Time

RULES: dict[str, Rule] = {"eh": EXPONENTIAL, "dw": WAVE}
_LEAST_FLUSH = 1 << 19  # a kernel call looks at all cells: spread it over many events
_MOST_EVENTS, _MOST_PLACED = 1 << 19, 3 << 21  # of one kernel call, and events times rows
_ROWS = 4096  # single updates that wait as they came
_MOST_WEIGHT = 2**53  # of sampled events, which are floats
_LEVELS = (0, 116)  # of events with weights from 1 to 2⁵³
ROUNDING = 1e-12  # outward slack on bounds that went through floating point


class CellSketch(OrderedSketch):
    """Rows of cells. The configuration has window, width, cell_error, cell_capacity, counter, …"""

    # --- to be written by each sketch ---

    @property
    @abstractmethod
    def _row_count(self) -> int:
        """Rows of cells; each counts every event once."""

    @abstractmethod
    def _check_item(self, item: Any) -> None:
        """Refuse what is not an item."""

    @abstractmethod
    def _hashes(self, items: Any, name: str = "item") -> UInt64Array:
        """What is left of items while they wait; one that goes with all gives one."""

    @abstractmethod
    def _cells_of(self, hashes: UInt64Array) -> Int64Array:
        """The cell of each item in each row, from row · width on."""

    def _cells_of_points(self, hashes: UInt64Array) -> Int64Array:
        """Those cells that count an item alone, and what else hashes there."""
        return self._cells_of(hashes)

    _noisy: bool = True
    """Whether something else may hash there."""

    @abstractmethod
    def _doubts(self) -> tuple[float, float]:
        """The doubt in a point query, and in each counter that it is made of."""

    @abstractmethod
    def _error(self, cell_error: float) -> float:
        """The error promised where cells have this one."""

    # --- state ---

    @staticmethod
    def _check_counter(counter: str, late: str, cell_capacity: int | None) -> None:
        """Check settings of the constructor."""
        validate.one_of(counter, "counter", ("eh", "dw", "rw"))
        if counter == "rw" and late != "raise":
            raise ValueError('counter="rw" takes events in any order: leave out late')
        if counter != "rw" and cell_capacity is not None:
            raise ValueError('cell_capacity is for counter="rw" alone')

    def _start(self, tightness: int | None = None) -> None:
        self._latest = None
        self._total = 0
        self._late_count = 0
        self._stream = self._index = 0
        self._by_id = False
        self._tightness = tightness  # of a leaf that was made tighter; None for the usual one
        self._cells: LogCells | SampleCells | None = None  # while nothing was counted
        self._pending = Pending(columns=4 if self._is_sampled else 3)
        self._rows: list[tuple[Any, int, int, Any]] = []
        self._settled = True
        self._last: tuple[int, LogCells | SampleCells, Counts] | None = None

    @property
    def _is_sampled(self) -> bool:
        return bool(self.config.counter == "rw")

    @property
    def _draws_coins(self) -> bool:
        """Whether events have coins, which ids can make."""
        return self._is_sampled

    @property
    def _size(self) -> int:
        return int(self.config.width) * self._row_count

    @property
    def merge_law(self) -> Literal["exact", "bounded"]:  # type: ignore[override]
        """``"exact"`` with ``counter="rw"``, else ``"bounded"``."""
        return "exact" if self._is_sampled else "bounded"

    @property
    def needs_order(self) -> bool:  # type: ignore[override]
        """Whether events must come in time order."""
        return not self._is_sampled

    # --- update ---

    def update(self, item: Any, *, at: Time | None = None, weight: int = 1, id: Any = None) -> None:
        """Count ``item`` (int, str or bytes) ``weight`` ≥ 0 times, at a time.

        With ``counter="rw"``, ``id`` (int, str or bytes), if given, makes the coin of the event.
        """
        self._check_item(item)
        weight = validate.integer(weight, "weight", 0, self._most_weight)
        self._check_id(id)
        if id is not None:
            check_one(id, "id")
        tick, late = self._placed_one(at)
        self._check_total(weight)
        self._rows.append((item, tick, weight, id))
        self._advance(tick, weight, late)
        if len(self._rows) >= _ROWS:
            self._buffer_rows()

    def update_many(self, item: Any, *, at: Any = None, weight: Any = 1, id: Any = None) -> None:
        """:meth:`update` for arrays, lists or columns; a scalar goes with all of the others."""
        hashes = self._hashes(item)
        weights = validate.integers(weight, "weight", 0, self._most_weight)
        columns: dict[str, NDArray[Any]] = {
            "item": hashes.reshape(()) if is_one(item) else hashes,
            "weight": weights,
        }
        self._check_id(id)
        ids = None
        if id is not None:
            ids = hash_items(id, self.config.seed, "id")
            columns["id"] = ids.reshape(()) if is_one(id) else ids
        ticks, late = self._placed(at, columns)
        size = ticks.size
        if not size:
            return
        total = exact_sum(weights) if weights.ndim else int(weights) * size
        self._check_total(total)
        self._buffer_rows()
        self._advance(int(ticks.max()), total, late)
        weights = np.broadcast_to(weights, size)
        coins = None if ids is None else _coins(ids, hashes, ticks, weights)
        self._buffer(item, hashes, ticks, weights, coins)

    @property
    def _most_weight(self) -> int:
        return _MOST_WEIGHT if self._is_sampled else INT64_MAX

    def _check_id(self, id: Any) -> None:
        if id is not None and not self._draws_coins:
            raise TypeError('id must be left out: it makes coins, for counter="rw"')

    def _buffer_rows(self) -> None:
        rows, self._rows = self._rows, []
        for has_id, run in groupby(rows, key=lambda row: row[3] is not None):
            items, at, heavy, ids = map(list, zip(*run, strict=True))
            hashes = self._hashes(items)
            ticks, weights = np.array(at, dtype=np.int64), np.array(heavy, dtype=np.int64)
            coins = None
            if has_id:
                coins = _coins(hash_items(ids, self.config.seed, "id"), hashes, ticks, weights)
            self._buffer(items, hashes, ticks, weights, coins)

    def _buffer(
        self,
        items: Any,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array | None,
    ) -> None:
        """Have checked updates wait: items as they came, hashed, and coins if ids were given."""
        size = ticks.size
        hashes = np.broadcast_to(hashes, size)
        columns = [hashes.view(np.int64), ticks, weights]
        if self._is_sampled:
            self._by_id |= coins is not None
            if coins is None:
                bits = np.ascontiguousarray(hashes).view(np.int64)
                coins = hash_events(self.config.seed, self._stream, self._index, bits, ticks)
            self._index = min(self._index + size, INT64_MAX)
            columns.append(coins.view(np.int64))
        if not weights.all():
            counted = np.flatnonzero(weights)
            columns = [column[counted] for column in columns]
            size = counted.size
        room = max(_LEAST_FLUSH, self._entries() // self._row_count)
        if self._pending.size and self._pending.size + size > room:
            self._work_in(self._pending.take())
        if size < room:
            self._pending.add_block(*columns, size=size)
        else:
            self._work_in([np.ascontiguousarray(column) for column in columns])

    def _entries(self) -> int:
        match self._cells:
            case LogCells(log=log):
                return log.times.size
            case SampleCells(sample=sample):
                return sample.times.size
        return 0

    def _settle(self) -> None:
        """Work in what waits and let old entries expire. When this happens makes no difference."""
        self._buffer_rows()
        if not self._settled:
            self._work_in(self._pending.take())
            self._pending.release()
            if self._cells is not None:
                self._cells = self._cells.expired(self._edge())
            self._settled = True

    def _edge(self) -> int:
        return int(self._cutoff()[0])

    def _work_in(self, columns: Sequence[Int64Array]) -> None:
        """Put events into their cells."""
        hashes, ticks, weights, *coins = columns
        if not ticks.size:
            return
        if self._cells is None:
            self._cells = self._empty_cells()
        edge = self._edge()
        if isinstance(self._cells, SampleCells):
            cells = self._cells_of(hashes.view(np.uint64))
            self._cells = self._cells.put(cells, ticks, weights, coins[0].view(np.uint64), edge)
            return
        if not is_sorted(ticks):
            order = np.argsort(ticks, kind="stable")
            hashes, ticks, weights = hashes[order], ticks[order], weights[order]
        batch = min(_MOST_EVENTS, _MOST_PLACED // self._row_count)
        for begin in range(0, ticks.size, batch):
            rows = slice(begin, begin + batch)
            cells = self._cells_of(hashes[rows].view(np.uint64))
            self._cells = self._cells.put(cells, ticks[rows], weights[rows], edge)

    def _empty_cells(self) -> LogCells | SampleCells:
        config = self.config
        if config.cell_capacity is not None:
            return SampleCells(self._empty_sample(), self._size)
        rule = RULES[config.counter]
        tightness = self._tightness or rule.tightness(config.cell_error)
        return LogCells(RankLog.empty(rule, np.full(self._size, tightness)))

    def _empty_sample(self) -> LevelSample:
        return LevelSample.empty(self.config.cell_capacity or 0, False, [np.float64])

    # --- questions ---

    @property
    def guarantee(self) -> float:
        """The error promised now, as a fraction of the window's total (or product of totals)."""
        return self._error(self._cell_error())

    def _cell_error(self) -> float:
        """The relative error of a cell, merging included."""
        config = self.config
        if config.cell_capacity is not None:
            return kept_relative_error(config.cell_capacity, config.cell_error, self._doubts()[1])
        cells = self._settled_cells() or self._empty_cells()
        assert isinstance(cells, LogCells)
        return cells.error

    def _split_doubt(self, rows: int, counters: int) -> tuple[float, float]:
        """The doubt in an answer, and in each of the counters that it is made of."""
        in_rows = math.exp(-rows)
        if not self._is_sampled:
            return in_rows, 0.0
        left = geometry.left_to_counters(1 - self.config.confidence, rows)
        return in_rows + left, left / counters

    def query(self, item: Any, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """How often ``item`` occurred in (now − window, now].

        The upper bound is certain, but with ``counter="rw"``.
        """
        self._check_item(item)
        answer = self.query_many([item], window, now)
        value, lower, upper = (
            float(each[0]) for each in (answer.value, answer.lower, answer.upper)
        )
        is_certain = upper == 0 and not self._is_sampled
        return Estimate(value, lower, upper, 1.0 if is_certain else answer.confidence)

    def query_many(
        self, items: Any, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """:meth:`query` for many items: arrays. The confidence is that of each answer."""
        since = self._since(window, now)
        hashes = self._hashes(items, "items")
        counts = self._counts(since)
        if counts is None:
            return Estimate(*np.zeros((3, hashes.size)))
        return self._points(counts, self._cells_of_points(hashes))

    def _points(self, counts: Counts, cells: Int64Array) -> Estimate:
        """What items count, from the cells that they have in some rows."""
        doubt, cell_doubt = self._doubts()
        lower, upper = counts.bounds(cells, cell_doubt)
        _, _, most = counts.total(self._row_count, cell_doubt)
        upper = np.minimum(upper.min(axis=0), most)
        lower = np.minimum(self._without_others(lower.min(axis=0), most), upper)
        value = np.clip(counts.middle[cells].min(axis=0), lower, upper)
        return Estimate(value, lower, upper, 1 - doubt)

    def _without_others(self, lower: Any, most: float) -> Any:
        """A lower bound on x, from one on x and what other items add in the best row.

        With probability 1 − e⁻ᵈ that is at most (e/w)(most − x), in some row.
        """
        if not self._noisy:
            return lower
        noise = math.e / self.config.width
        if noise >= 1:
            return np.zeros_like(lower)
        return np.maximum((lower - noise * most) / (1 - noise) * (1 - ROUNDING), 0.0)

    def total(self, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The number of events, weights included, in (now − window, now]."""
        counts = self._counts(self._since(window, now))
        if counts is None:
            return Estimate(0.0, 0.0, 0.0)
        _, cell_doubt = self._doubts()
        value, lower, upper = counts.total(self._row_count, cell_doubt)
        return Estimate(value, lower, upper, 1.0 if counts.is_total_certain else 1 - cell_doubt)

    def _counts(self, since: int) -> Counts | None:
        """What the cells count; kept for the next question about the same window."""
        cells = self._settled_cells()
        if cells is None:
            return None
        if self._last is None or self._last[:2] != (since, cells):
            self._last = since, cells, cells.counts(since)
        return self._last[2]

    def _settled_cells(self) -> LogCells | SampleCells | None:
        self._settle()
        return self._cells

    # --- merge ---

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sketch of the same configuration, tight enough for so many levels of merging."""
        levels = validate.integer(merge_levels, "merge_levels", 0, MOST_LEVELS)
        empty = super().empty_like()
        if levels and not self._is_sampled:
            rule = RULES[self.config.counter]
            empty._start(tightness_for_tree(rule, self.config.cell_error, levels))
        empty._stream = self._stream if stream is None else validate.integer(stream, "stream", 0)
        return empty

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        twin = super().empty_like()
        twin._become(self)
        return twin

    def _become(self, other: Self) -> None:
        # Cells are values: sharing them is as good as copying them.
        other._settle()
        self._start(other._tightness)
        self._cells, self._latest, self._total = other._cells, other._latest, other._total
        self._late_count = other._late_count
        self._stream, self._index, self._by_id = other._stream, other._index, other._by_id

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        for sketch in sketches:
            sketch._settle()
        merged = sketches[0].empty_like()
        merged._check_total(sum(sketch._total for sketch in sketches))
        merged._total = sum(sketch._total for sketch in sketches)
        merged._late_count = min(sum(sketch._late_count for sketch in sketches), INT64_MAX)
        merged._latest = max(s._latest for s in sketches if s._latest is not None)
        merged._stream = min(sketch._stream for sketch in sketches)
        merged._index = min(sum(sketch._index for sketch in sketches), INT64_MAX)
        merged._by_id = any(sketch._by_id for sketch in sketches)
        counting = [sketch for sketch in sketches if sketch._cells is not None]
        if len(counting) > 1:
            cells: list[Any] = [sketch._cells for sketch in counting]
            edges = [sketch._edge() for sketch in counting]
            merged._cells = type(cells[0]).merged(cells, edges, merged._edge())
            drawn = [each for each in counting if each._is_sampled and not each._by_id]
            kept = [(each, each._kept_times()) for each in drawn]
            warn_of_shared_coins(
                [(e._stream, int(t.min()), int(t.max())) for e, t in kept if t.size]
            )
        elif counting:  # the others saw nothing but zeros: the clock moves, no more
            cells_of_one = counting[0]._cells
            assert cells_of_one is not None
            merged._cells = cells_of_one.expired(merged._edge())
        else:
            tightness = [sketch._tightness for sketch in sketches if sketch._tightness]
            merged._tightness = max(tightness, default=None)
        return merged

    @property
    def _has_drawn_coins(self) -> bool:
        """Whether coins came from the stream: none from ids."""
        return self._is_sampled and not self._by_id and not self.is_empty

    def _kept_times(self) -> Int64Array:
        assert isinstance(self._cells, SampleCells)
        return self._cells.sample.times

    def _finish(self, prototype: Self) -> None:
        self._settle()
        self._tightness = None
        if not self._has_drawn_coins:
            self._stream = prototype._stream
        if isinstance(self._cells, LogCells):
            self._cells = self._cells.loosened(self.config.cell_error, self._edge())

    # --- bytes ---

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        sampled = ["cell_capacity"] if settings.get("counter") == "rw" else []
        return ["width", "depth", "cell_error", *sampled]

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        for sketch in sketches:
            sketch._settle()
        config = sketches[0].config
        seen = np.array([sketch._latest is not None for sketch in sketches])
        latest = np.array([sketch._latest or 0 for sketch in sketches], dtype=np.int64)
        cells: list[Any] = [
            sketch._cells or sketch._empty_cells()
            for sketch in sketches
            if sketch._latest is not None
        ]
        if config.cell_capacity is not None:
            cls._write_samples(sketches, cells, seen, latest, writer)
            return
        rule = RULES[config.counter]
        none = RankLog.empty(rule, np.empty(0, dtype=np.int64))
        usual = rule.tightness(config.cell_error)
        spreads = iter([each.spread for each in cells])
        tightness = iter([int(each.log.tightness[0]) for each in cells])
        states = CounterStates(
            RankLog.joined([none, *(each.log for each in cells)]),
            np.array(
                [
                    sketch._tightness or usual if sketch.is_empty else next(tightness)
                    for sketch in sketches
                ]
            ),
            seen,
            latest,
            np.array([sketch._late_count for sketch in sketches], dtype=np.int64),
            np.array([1.0 if sketch.is_empty else next(spreads) for sketch in sketches]),
        )
        counter_states.write_states(states, usual, writer, logs=sketches[0]._size)

    @classmethod
    def _write_samples(
        cls,
        sketches: Sequence[Self],
        cells: Sequence[SampleCells],
        seen: Any,
        latest: Int64Array,
        writer: RecordWriter,
    ) -> None:
        samples = sketches[0]._size + 1
        sample = sketches[0]._empty_sample()
        numbers = np.flatnonzero(seen).tolist()
        if cells:
            sample = LevelSample.side_by_side([each.sample for each in cells], numbers, samples)
        columns = [
            [sketch._stream for sketch in sketches],
            [sketch._index for sketch in sketches],
            [sketch._total for sketch in sketches],
        ]
        extra = tuple(np.array(column, dtype=np.int64) for column in columns)
        by_id = np.array([sketch._by_id for sketch in sketches])
        sample_states.write_states(
            SampleStates(sample, seen, latest, extra, by_id), [NumberCodec()], writer, samples
        )

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        if prototype._is_sampled:
            return cls._read_samples(prototype, reader)
        config = prototype.config
        rule = RULES[config.counter]
        usual, size = rule.tightness(config.cell_error), prototype._size
        states = counter_states.read_states(rule, usual, config.window, reader, logs=size)
        states.check_order(cls.__name__, config.by, config.late)
        totals = states.log.totals.reshape(-1, prototype._row_count, config.width)
        sums = totals.astype(object).sum(axis=2) if (totals > 2**31).any() else totals.sum(axis=2)
        if (sums != sums[:, :1]).any() or (sums[:, :1] > INT64_MAX).any():
            corrupt(cls.__name__, "rows that count different numbers of events")
        sketches = []
        number = 0
        for seen, tightness, latest, late_count, spread in zip(*states.rows(), strict=True):
            sketch = cls.__new__(cls)
            sketch.config = config
            sketch._start(None if tightness == usual else tightness)
            if seen:
                log = states.log.take(np.arange(number * size, (number + 1) * size))
                sketch._latest, sketch._late_count = latest, late_count
                sketch._total = int(sums[number, 0])
                if sketch._total:
                    sketch._cells = LogCells(log, spread)
                elif spread > 1:
                    corrupt(cls.__name__, "merged, and nothing was counted")
                number += 1
            sketches.append(sketch)
        return sketches

    @classmethod
    def _read_samples(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        config = prototype.config
        size = prototype._size
        empty = prototype._empty_sample()
        states = sample_states.read_states(
            empty, config.window, _LEVELS, 3, [NumberCodec()], reader, size + 1, ids=True
        )
        weights = states.sample.columns[0]
        if ((weights < 1) | (weights > _MOST_WEIGHT) | (weights % 1 != 0)).any():
            corrupt(cls.__name__, "a weight out of range")
        above = states.sample.levels - (np.frexp(weights)[1] - 1)
        if (above < 0).any() or (above > 54).any():
            corrupt(cls.__name__, "a weight at a level that is not its own")
        index, totals = states.extra[1:]
        present = np.bincount(states.sample.keys // (size + 1), weights, reader.size)
        # Sums of floats: a little room, for they are rounded.
        most = totals * (prototype._row_count + 1.0) * (1 + 1e-9)
        if (totals[~states.seen] > 0).any() or (present > most).any():
            corrupt(cls.__name__, "more was sampled than was seen")
        if ((totals > 0) & (index < 1)).any() or (index[~states.seen] > 0).any():
            corrupt(cls.__name__, "events that were not seen, or none that were")
        if config.by == "count" and (
            (states.latest[states.seen] < 1).any() or (states.sample.times < 1).any()
        ):
            corrupt(cls.__name__, "positions out of range")
        samples = states.sample.split(np.arange(reader.size + 1) * (size + 1))
        sketches = []
        for i, (sample, seen) in enumerate(zip(samples, states.seen.tolist(), strict=True)):
            sketch = cls.__new__(cls)
            sketch.config = config
            sketch._start()
            sketch._stream, sketch._index, sketch._total = (int(each[i]) for each in states.extra)
            sketch._by_id = states.by_id is not None and bool(states.by_id[i])
            if seen:
                sketch._latest = int(states.latest[i])
            if sketch._total:
                sketch._cells = SampleCells(sample, size)
            sketches.append(sketch)
        return sketches


def _coins(
    ids: UInt64Array, hashes: UInt64Array, ticks: Int64Array, weights: Int64Array
) -> UInt64Array:
    """Coins of events with ids: only repetitions, of item and weight too, share one."""
    size = ticks.size
    items = np.broadcast_to(hashes, size).view(np.int64)
    return chained(np.broadcast_to(ids, size), ticks, items, weights)
