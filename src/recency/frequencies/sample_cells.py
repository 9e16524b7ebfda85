"""Cells that are level samples of events; the last cell of a key samples all events."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import (
    BoolArray,
    FloatArray,
    Int64Array,
    UInt64Array,
    cutoffs,
    stable_order,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.dispersion import dispersion
from recency.core.level_sample import (
    NO_LEVEL,
    Columns,
    Edges,
    LevelSample,
    group_of,
    levels_of_weights,
    take,
)
from recency.core.samples import Samples
from recency.core.sizing import kept_relative_error
from recency.counters.arrival import Arrival
from recency.frequencies.cell_counts import SampledCounts
from recency.frequencies.grid import Grid
from recency.frequencies.tally import CellTally, Events, index_after
from recency.samples.algorithm import Placed, Placing, blocks_of, taken_in
from recency.samples.coins import check_shared
from recency.samples.records import NumberCodec, SampleStates, read_states, write_states

_BLOCK = 1 << 13  # events per pass: temporaries stay in the cache
_ABSORB = 1 << 16  # rows to collect, at least, before the sample absorbs them
_MOST_WEIGHT = 2**53  # of sampled events, whose weights are float64
_LEVELS = (0, 116)  # levels of events of weight 1 to 2⁵³
_LATER = 54  # most levels that the coin of an event may add to that of its weight


class SampleCells:
    """Cells that are level samples, as a part of :class:`CellAlgorithm`."""

    kind = "rw"
    needs_order = False
    merge_law = "exact"
    draws_coins = True
    drawn_columns = 1
    least_flush = 1 << 19  # rows; a kernel call reads all samples
    most_weight = _MOST_WEIGHT

    def __init__(
        self,
        capacity: int,
        cell_error: float,
        cell_failure: float,
        product_failure: float,
        grid: Grid,
        window: int | None,
        arrival: Arrival,
        seed: int,
    ) -> None:
        self.stride = grid.size + 1
        """How many samples a key has."""
        self.capacity, self.grid, self.window, self.arrival = capacity, grid, window, arrival
        self.cell_failure, self.product_failure = cell_failure, product_failure
        self.cell_error, self.seed = cell_error, seed

    def empty(self, size: int, merge_levels: int) -> Samples:
        """Return keys without elements."""
        none = LevelSample.empty(self.capacity, False, [np.float64])
        return Samples(none, np.full(size, self.stride), per_row=self.grid.rows)

    def draw(
        self, tally: CellTally, events: Events, counted: Any
    ) -> tuple[dict[str, Any], tuple[NDArray[Any], ...]]:
        """Draw a coin for each event, also of weight 0; return those of events with weight."""
        coins, by_id = events.coins(self.seed, tally.of_cells)
        index = index_after(tally.of_cells, events.keys)
        return {"index": index, "by_id": tally.by_id | by_id}, (coins[counted],)

    def absorb(
        self,
        body: Samples,
        tally: CellTally,
        keys: Int64Array,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array,
    ) -> Samples:
        """Add rows; the elements of one event, one per cell, share its coin."""
        columns: Columns = hashes, ticks, weights, coins
        if tally.size > 1:  # sorted by key, a block has few keys, whose samples stay in the cache
            order = stable_order(keys)
            keys, columns = keys[order], tuple(column[order] for column in columns)
        placing = CellPlacing(self._cutoff(tally), self.grid)
        blocks = blocks_of(keys, columns, _BLOCK)
        return replace(body, sample=taken_in(body.sample, placing, blocks, _ABSORB))

    def _cutoff(self, tally: CellTally) -> Int64Array:
        """Return for each sample the last time that no window reaches."""
        return np.repeat(cutoffs(tally.latest, self.window), self.stride)

    # --- merge ---

    def merge(
        self, body: Samples, tally: CellTally, merged: CellTally, into: Int64Array
    ) -> tuple[dict[str, Any], Samples]:
        """Merge keys; this is exact."""
        sample = body.sample
        check_shared(tally.of_cells, into, sample.keys // self.stride, sample.times)
        joint = body.alike(into, merged.size)
        return {}, replace(joint, sample=joint.sample.united(self._cutoff(merged)))

    def drawn(self, tally: CellTally) -> BoolArray:
        """Return which keys drew coins from their stream number, none from ids."""
        return tally.seen & ~tally.by_id

    def finalize(self, body: Samples, tally: CellTally) -> Samples:
        """Return the body unchanged."""
        return body

    # --- questions ---

    def error(self, body: Samples, tally: CellTally) -> FloatArray:
        """Return the relative error of the cells of each key."""
        kept = kept_relative_error(self.capacity, self.cell_error, self.cell_failure)
        return np.full(tally.size, kept)

    def counts(self, body: Samples, tally: CellTally, since: Int64Array) -> SampledCounts:
        """Return what the cells of each key count after the tick ``since``."""
        sample, stride = body.sample, self.stride
        since = np.repeat(since, stride)
        rows = np.flatnonzero(sample.times > since[sample.keys])
        overflowed = sample.edge_keys[sample.edges > since[sample.edge_keys]]
        # Cells are renumbered, without those that are empty.
        has = np.zeros(since.size, dtype=np.bool_)
        has[sample.keys[rows]] = has[overflowed] = True
        numbers = np.flatnonzero(has)
        number = np.cumsum(has) - 1
        size = numbers.size
        query_levels = sample.query_levels(since)[numbers]
        keys, weights = number[sample.keys[rows]], sample.columns[0][rows]
        is_exact = query_levels == NO_LEVEL
        scale = np.exp2(np.where(is_exact, 0, query_levels).astype(np.float64))
        in_sample = is_exact[keys] | (sample.levels[rows] >= query_levels[keys])
        large = in_sample & (is_exact[keys] | (weights >= scale[keys]))
        small = np.flatnonzero(in_sample & ~large)
        of, kept = keys[small], rows[small]
        classes = sample.times[kept], sample.columns[0][kept].view(np.int64)
        return SampledCounts(
            tally.size,
            self.grid,
            stride,
            numbers,
            _sums(keys[large], weights[large], size),
            np.bincount(of, minlength=size),
            np.where(is_exact, 0.0, scale),
            _sums(keys, weights, size),
            dispersion(of, sample.levels[kept] - query_levels[of], classes, size),
            sample.capacity,
        )

    # --- bytes ---

    def write(self, body: Samples, tally: CellTally, writer: RecordWriter) -> None:
        """Write the records that :mod:`recency.samples.records` describes."""
        extra = tally.stream, tally.index, tally.totals
        states = SampleStates(body.sample, tally.seen, tally.known_latest, extra, (tally.by_id,))
        write_states(states, [NumberCodec()], writer, self.stride)

    def read(self, reader: RecordReader) -> tuple[dict[str, Any], Samples]:
        """Read what :meth:`write` wrote; refuse states that no stream leads to."""
        body = self.empty(reader.size, 0)
        states = read_states(
            body.sample, self.window, _LEVELS, 3, [NumberCodec()], reader, self.stride, flags=1
        )
        sample, name = states.sample, reader.name
        weights = sample.columns[0]
        if ((weights < 1) | (weights > _MOST_WEIGHT) | (weights % 1 != 0)).any():
            corrupt(name, "a weight out of range")
        above = sample.levels - (np.frexp(weights)[1] - 1)
        if (above < 0).any() or (above > _LATER).any():
            corrupt(name, "a weight at a level that is not its own")
        stream, index, totals = states.extra
        present = np.bincount(sample.keys // self.stride, weights, reader.size)
        # A small tolerance for rounded sums of floats.
        most = totals * (self.grid.rows + 1.0) * (1 + 1e-9)
        if (totals[~states.seen] > 0).any() or (present > most).any():
            corrupt(name, "more was sampled than was seen")
        if ((totals > 0) & (index < 1)).any() or (index[~states.seen] > 0).any():
            corrupt(name, "events that were not seen, or none that were")
        if self.arrival.by == "count" and (
            (states.latest[states.seen] < 1).any() or (sample.times < 1).any()
        ):
            corrupt(name, "positions out of range")
        fields = {
            "latest": np.where(states.seen, states.latest, CellTally.start["latest"]),
            "totals": totals,
            "stream": stream,
            "index": index,
            "by_id": states.flags[0],
        }
        return fields, replace(body, sample=sample)


@dataclass(frozen=True)
class CellPlacing(Placing):
    """Rule that places each event into its cells; these elements share its coin."""

    grid: Grid

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Return the elements later than the edges of their levels."""
        hashes, ticks, weights, coins = rows
        grid, values = self.grid, weights.astype(np.float64)
        levels = levels_of_weights(values, coins)
        cells = np.concatenate([grid.cells_of(hashes), np.full((1, levels.size), grid.size)])
        first = keys * (grid.size + 1)
        groups, copies = group_of(cells + first, levels).ravel(), grid.rows + 1
        times = np.tile(ticks, copies)
        live = np.tile(ticks > self.cutoff[first], copies)
        kept = np.flatnonzero((times > edges.of(groups)) & live)
        return take(kept, groups, times, (np.tile(values, copies),))


def _sums(keys: Int64Array, weights: FloatArray, size: int) -> Int64Array:
    """Return sums of integers, which are exact and so do not depend on the order."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, keys, weights.astype(np.int64))
    return sums
