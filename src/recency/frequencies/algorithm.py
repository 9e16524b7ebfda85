"""Algorithm of the sketches of rows of cells.

A grid hashes items to cells. The body consists of *parts*: the cells, and perhaps a sample of
names. A part is an object with functions that update, read and write its own body, for many keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import Admitted, Algorithm, Columns, State, described
from recency.core import validate
from recency.core.arrays import INT64_MAX, FloatArray, Int64Array, broadcast
from recency.core.codec import RecordReader, RecordWriter
from recency.core.hashing import check_one, hash_items, is_one
from recency.counters.arrival import NOT_BY_COUNT, Arrival, CounterTally, check_total
from recency.frequencies.cell_counts import Counts
from recency.frequencies.grid import Grid
from recency.frequencies.log_cells import LogCells
from recency.frequencies.names import NameSample
from recency.frequencies.sample_cells import SampleCells
from recency.frequencies.tally import CellTally, Events
from recency.keyed import only_key
from recency.samples import coins


@dataclass(frozen=True, eq=False)
class Parts:
    """Bodies of all parts."""

    each: tuple[Any, ...]
    asked: list[Any] = field(default_factory=lambda: [None])
    """The last question about a single key, and what cells count: not part of the value."""

    @property
    def cells(self) -> Any:
        """Body of the cells."""
        return self.each[0]

    @property
    def entries(self) -> int:
        """Least number of buffered rows that is worth a kernel call."""
        return max(int(body.entries) for body in self.each)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(int(body.nbytes) for body in self.each)

    def take(self, keys: Int64Array) -> "Parts":
        """Return the bodies of some keys."""
        return Parts(tuple(body.take(keys) for body in self.each))

    def split(self) -> list["Parts"]:
        """Return one body per key."""
        return list(map(Parts, zip(*(body.split() for body in self.each), strict=True)))

    @staticmethod
    def joined(bodies: Sequence["Parts"]) -> "Parts":
        """Return one body with the keys of all, concatenated."""
        columns = zip(*(body.each for body in bodies), strict=True)
        return Parts(tuple(column[0].joined(column) for column in columns))


class CellAlgorithm(Algorithm):
    """Algorithm with rows (hash, time, weight, and what the parts draw: coins, levels, names)."""

    def __init__(
        self,
        grid: Grid,
        cells: LogCells | SampleCells,
        arrival: Arrival,
        window: int | None,
        failure: float,
        seed: int,
        names: NameSample | None = None,
    ) -> None:
        self.grid, self.cells, self.arrival, self.seed = grid, cells, arrival, seed
        self.window, self.unit = window, arrival.unit
        self.failure = failure
        """The probability that a point query fails."""
        self.names: tuple[NameSample, ...] = () if names is None else (names,)
        self.parts: tuple[Any, ...] = cells, *self.names
        self.draws_coins = any(part.draws_coins for part in self.parts)
        self.has_clock = arrival.by == "time"
        self.unmergeable = None if self.has_clock else NOT_BY_COUNT
        self.merge_law, self.needs_order = cells.merge_law, cells.needs_order  # type: ignore[assignment]
        self.flush_rows = cells.least_flush

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """Return keys without events; for a tree of merges cells are tighter, as in counters."""
        tally = replace(CellTally.empty(size), stream=np.arange(first_stream, first_stream + size))
        return State(tally, Parts(tuple(part.empty(size, merge_levels) for part in self.parts)))

    # --- update ---

    def check(
        self, size: int | None, item: Any, at: Any = None, weight: Any = 1, id: Any = None
    ) -> Columns:
        """Return hashes, times, weights, hashes of ids or None, and the items as given."""
        hashes = self.grid.hashes(item)
        weights = validate.integers(weight, "weight", 0, self.cells.most_weight)
        one = hashes.reshape(()) if is_one(item) else hashes
        columns: dict[str, NDArray[Any]] = {"item": one, "weight": weights}
        ids: Any = None
        if id is not None:
            self._refuse_id()
            ids = hash_items(id, self.seed, "id")
            columns["id"] = ids = ids.reshape(()) if is_one(id) else ids
        ticks, size = self.arrival.check(at, columns, size)
        if ids is not None:
            ids = broadcast(ids, size)
        return broadcast(one, size), ticks, broadcast(weights, size), ids, item

    def _refuse_id(self) -> None:
        if not self.draws_coins:
            raise TypeError('id must be left out: only counter="rw" and names=True use it')

    def check_row(self, tally: Any, last: Any, item: Any, at: Any, weight: Any, id: Any) -> Any:
        """Return an event, with the latest time, total and number of late events after it."""
        self.grid.check_item(item)
        weight = validate.integer(weight, "weight", 0, self.cells.most_weight)
        if id is not None:
            self._refuse_id()
            check_one(id, "id")
        if last is None:
            latest, total, late_count = (
                int(column[0]) for column in (tally.latest, tally.totals, tally.late_count)
            )
        else:
            _, _, _, _, latest, total, late_count = last
        tick, late = self.arrival.place_one(latest, at)
        check_total(total, weight)
        late_count = min(late_count + late, INT64_MAX)
        return item, tick, weight, id, max(latest, tick), total + weight, late_count

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """Hash single rows and return columns; the last row has the counts after all."""
        items, at, heavy, ids, latest, totals, late_count = map(list, zip(*rows, strict=True))
        newest, total, late = (np.array(column[-1:]) for column in (latest, totals, late_count))
        counted = CounterTally(newest, total, late, tally.merge_factor)
        has_id = np.array([id is not None for id in ids])
        hashed = None
        if has_id.any():
            hashed = np.zeros(len(ids), dtype=np.uint64)
            hashed[has_id] = hash_items([id for id in ids if id is not None], self.seed, "id")
        ticks, weights = np.array(at, dtype=np.int64), np.array(heavy, dtype=np.int64)
        keys, hashes = only_key(len(items)), self.grid.hashes(items)
        return self._drawn(
            tally, counted, Events(keys, hashes, ticks, weights, hashed, has_id, items)
        )

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """Return the tally, and the rows to absorb; rows of weight 0 only change the tally."""
        hashes, ticks, weights, ids, items = columns
        counted, ticks = self.arrival.place(tally, keys, ticks, weights)
        return self._drawn(tally, counted, Events(keys, hashes, ticks, weights, ids, None, items))

    def _drawn(self, tally: CellTally, counted: CounterTally, events: Events) -> Admitted:
        """Return the rows with the columns that the parts draw for them."""
        rows = slice(None) if events.weights.all() else np.flatnonzero(events.weights)
        changes, payload = dict(vars(counted)), ()
        for part in self.parts:
            changed, columns = part.draw(tally, events, rows)
            changes.update(changed)
            payload += columns
        keys, hashes, ticks, weights, *_ = events.taken(rows)
        tally = CellTally(**{**vars(tally), **changes})
        return Admitted(tally, keys, (hashes, ticks, weights, *payload))

    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> Parts:
        """Absorb the rows part by part."""
        tally, body = state
        hashes, ticks, weights, *payload = columns
        absorbed = []
        for part, own in zip(self.parts, body.each, strict=True):
            drawn, payload = payload[: part.drawn_columns], payload[part.drawn_columns :]
            absorbed.append(part.absorb(own, tally, keys, hashes, ticks, weights, *drawn))
        return Parts(tuple(absorbed))

    # --- merge ---

    def merge(self, state: State, into: Int64Array, size: int) -> State:
        """Add totals, and merge the bodies part by part."""
        tally, body = state
        counted = tally.merged(into, size, self.arrival.total_name)
        _, stream, index, by_id = coins.merged(tally.of_cells, into, size)
        named_latest, _, named, named_by_id = coins.merged(tally.of_names, into, size)
        merged = CellTally(
            **vars(counted),
            stream=stream,
            index=index,
            by_id=by_id,
            named_latest=named_latest,
            named=named,
            named_by_id=named_by_id,
        )
        changes, bodies = {}, []
        for part, own in zip(self.parts, body.each, strict=True):
            changed, part_body = part.merge(own, tally, merged, into)
            changes.update(changed)
            bodies.append(part_body)
        return State(replace(merged, **changes), Parts(tuple(bodies)))

    def finalize(self, state: State, prototype: State) -> State:
        """Drop extra tightness, and the stream numbers of keys that have drawn no coins."""
        tally, body = state
        drawn = np.any([part.drawn(tally) for part in self.parts], axis=0)
        tally = replace(tally, stream=np.where(drawn, tally.stream, prototype.tally.stream[0]))
        bodies = zip(self.parts, body.each, strict=True)
        return State(tally, Parts(tuple(part.finalize(own, tally) for part, own in bodies)))

    # --- questions ---

    def cell_error(self, state: State) -> FloatArray:
        """Return the relative error of the cells of each key, merging included."""
        error: FloatArray = self.cells.error(state.body.cells, state.tally)
        return error

    def guarantee(self, state: State) -> FloatArray:
        """Return the error bound, as a share of the window's total or of the product of totals."""
        return np.asarray(self.grid.error(self.cell_error(state)))

    def counts(self, state: State, since: Int64Array) -> Counts:
        """Return what the cells of each key count after the tick ``since``."""
        tally, body = state
        if tally.size > 1:
            return self.cells.counts(body.cells, tally, since)
        last = body.asked[0]  # read once, since another thread may replace it
        if last is None or last[0] is not tally or last[1] != since[0]:
            last = tally, since[0], self.cells.counts(body.cells, tally, since)
            body.asked[0] = last
        counts: Counts = last[2]
        return counts

    def what_was_seen(self, state: State) -> list[str]:
        """Return a text with the grid, the total and the latest time."""
        shape = f"{self.grid.rows} × {self.grid.width} {self.cells.kind}"
        tally = state.tally
        return described(shape + ", total={}, latest={}", tally.totals, tally.latest)

    # --- bytes ---

    def write(self, state: State, writer: RecordWriter) -> None:
        """Write the records part by part."""
        for part, own in zip(self.parts, state.body.each, strict=True):
            part.write(own, state.tally, writer)

    def read(self, reader: RecordReader) -> State:
        """Read what :meth:`write` wrote, part by part."""
        counted, body = self.cells.read(reader)
        bodies = [body]
        for part in self.names:
            more, body = part.read(reader, counted)
            counted = {**counted, **more}
            bodies.append(body)
        empty = CellTally.empty(reader.size)
        tally = CellTally(
            **{
                each.name: counted.get(each.name, getattr(empty, each.name))
                for each in fields(empty)
            }
        )
        return State(tally, Parts(tuple(bodies)))
