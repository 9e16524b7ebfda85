"""Cells that are level samples of events; the last cell of a key samples all events."""

from collections.abc import Sequence
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
    offsets,
    ranges,
    stable_order,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.dispersion import dispersion
from recency.core.level_sample import NO_LEVEL, LevelSample, group_of, levels_of_weights
from recency.core.sizing import kept_relative_error
from recency.counters.arrival import Arrival
from recency.frequencies.cell_counts import SampledCounts
from recency.frequencies.grid import Grid
from recency.frequencies.tally import CellTally, Events, index_after
from recency.samples.coins import check_shared
from recency.samples.records import NumberCodec, SampleStates, read_states, write_states

_BLOCK = 1 << 13  # events per pass: temporaries stay in the cache
_ABSORB = 1 << 16  # rows to collect, at least, before the sample absorbs them
_MOST_WEIGHT = 2**53  # of sampled events, whose weights are float64
_LEVELS = (0, 116)  # levels of events of weight 1 to 2⁵³
_LATER = 54  # most levels that the coin of an event may add to that of its weight


@dataclass(frozen=True, eq=False)
class KeyedSample:
    """Level samples of many keys, ``stride`` samples per key."""

    size: int  # keys
    stride: int
    rows: int  # most elements that one event adds
    sample: LevelSample

    @property
    def entries(self) -> int:
        """Least number of buffered rows that is worth a kernel call."""
        return self.sample.times.size // self.rows

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        sample = self.sample
        columns = (sample.groups, sample.times, *sample.columns, sample.edge_groups, sample.edges)
        return sum(column.nbytes for column in columns)

    def of(self, sample: LevelSample) -> "KeyedSample":
        """Return the same keys with another sample."""
        return replace(self, sample=sample)

    def take(self, keys: Int64Array) -> "KeyedSample":
        """Return the samples of some keys."""
        sample = self.sample
        rows, numbers = _rows_of(keys, sample.keys // self.stride, self.size)
        edges, edge_numbers = _rows_of(keys, sample.edge_keys // self.stride, self.size)
        kept = sample.only(rows)

        def moved(samples: Int64Array, levels: Int64Array, number: Int64Array) -> Int64Array:
            return group_of(number * self.stride + samples % self.stride, levels)

        edge_groups = moved(sample.edge_keys[edges], sample.edge_levels[edges], edge_numbers)
        taken = replace(
            kept,
            groups=moved(kept.keys, kept.levels, numbers),
            edge_groups=edge_groups,
            edges=sample.edges[edges],
        )
        return replace(self, size=keys.size, sample=taken)

    def split(self) -> list["KeyedSample"]:
        """Return one body per key."""
        if self.size == 1:
            return [self]
        sample = self.take(np.arange(self.size)).sample  # in order of keys
        parts = sample.split(np.arange(self.size + 1) * self.stride)
        return [replace(self, size=1, sample=part) for part in parts]

    @staticmethod
    def joined(bodies: Sequence["KeyedSample"]) -> "KeyedSample":
        """Return one body with the keys of all, concatenated."""
        sizes = np.array([each.size for each in bodies])
        firsts = offsets(sizes)[:-1]
        sample = bodies[0].sample
        # A body without elements may still have edges.
        filled = [
            i for i, each in enumerate(bodies) if each.sample.edges.size or each.sample.times.size
        ]
        if filled not in ([], [0]):
            samples = [bodies[i].sample for i in filled]
            sample = LevelSample.side_by_side(samples, firsts[filled], bodies[0].stride)
        return replace(bodies[0], size=int(sizes.sum()), sample=sample)

    def merged(self, into: Int64Array, size: int, cutoff: Int64Array) -> "KeyedSample":
        """Merge key i into key ``into[i]``, of ``size`` keys; this is exact."""
        samples = np.arange(self.size * self.stride)
        renamed = self.sample.renamed(
            into[samples // self.stride] * self.stride + samples % self.stride
        )
        sample = renamed.united(np.repeat(cutoff, self.stride))
        return replace(self, size=size, sample=sample)


def _rows_of(
    keys: Int64Array, owners: Int64Array, size: int
) -> tuple[NDArray[np.intp], Int64Array]:
    """Return the rows of some keys, concatenated, and for each row the index of its key.

    ``keys`` may have a key several times.
    """
    wanted = np.zeros(size, dtype=np.bool_)
    wanted[keys] = True
    rows = np.flatnonzero(wanted[owners])
    rows = rows[np.argsort(owners[rows], kind="stable")]
    starts, ends = (np.searchsorted(owners[rows], keys, side) for side in ("left", "right"))
    counts = ends - starts
    return rows[ranges(starts, counts)], np.repeat(np.arange(keys.size), counts)


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
        self.capacity, self.grid, self.window, self.arrival = capacity, grid, window, arrival
        self.cell_failure, self.product_failure = cell_failure, product_failure
        self.cell_error, self.seed = cell_error, seed

    def empty(self, size: int, merge_levels: int) -> KeyedSample:
        """Return keys without elements."""
        none = LevelSample.empty(self.capacity, False, [np.float64])
        return KeyedSample(size, self.grid.size + 1, self.grid.rows, none)

    def draw(
        self, tally: CellTally, events: Events, counted: Any
    ) -> tuple[dict[str, Any], tuple[NDArray[Any], ...]]:
        """Draw a coin for each event, also of weight 0; return those of events with weight."""
        coins, by_id = events.coins(self.seed, tally.of_cells)
        index = index_after(tally.of_cells, events.keys)
        return {"index": index, "by_id": tally.by_id | by_id}, (coins[counted],)

    def absorb(
        self,
        body: KeyedSample,
        tally: CellTally,
        keys: Int64Array,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array,
    ) -> KeyedSample:
        """Add rows; the elements of one event, one per cell, share its coin."""
        stride, rows = body.stride, body.rows
        if tally.size > 1:  # sorted by key, a block has few keys, whose samples stay in the cache
            order = stable_order(keys)
            keys, hashes, coins = keys[order], hashes[order], coins[order]
            ticks, weights = ticks[order], weights[order]
        own_cutoff = cutoffs(tally.latest, self.window)
        cutoff = np.repeat(own_cutoff, stride)
        sample = body.sample
        none = (sample.groups[:0], sample.times[:0], sample.columns[0][:0])
        survivors: list[tuple[NDArray[Any], ...]] = [none]
        collected = 0
        for end in range(ticks.size, 0, -_BLOCK):  # the last rows are usually the newest
            block = slice(max(0, end - _BLOCK), end)
            values = weights[block].astype(np.float64)
            levels = levels_of_weights(values, coins[block])
            total = np.full((1, levels.size), self.grid.size)
            cells = np.concatenate([self.grid.cells_of(hashes[block]), total])
            groups = group_of(cells + keys[block] * stride, levels).ravel()
            times = np.tile(ticks[block], rows + 1)
            live = np.tile(ticks[block] > own_cutoff[keys[block]], rows + 1)
            kept = np.flatnonzero(sample.may_be_kept(groups, times) & live)
            survivors.append((groups[kept], times[kept], np.tile(values, rows + 1)[kept]))
            collected += kept.size
            if collected >= max(_ABSORB, sample.times.size // 2):
                sample = _absorbed(sample, survivors, cutoff)
                survivors, collected = [none], 0
        return body.of(_absorbed(sample, survivors, cutoff))

    # --- merge ---

    def merge(
        self, body: KeyedSample, tally: CellTally, merged: CellTally, into: Int64Array
    ) -> tuple[dict[str, Any], KeyedSample]:
        """Merge keys; this is exact."""
        sample = body.sample
        check_shared(tally.of_cells, into, sample.keys // body.stride, sample.times)
        cutoff = cutoffs(merged.latest, self.window)
        return {}, body.merged(into, merged.size, cutoff)

    def drawn(self, tally: CellTally) -> BoolArray:
        """Return which keys drew coins from their stream number, none from ids."""
        return tally.seen & ~tally.by_id

    def finalize(self, body: KeyedSample, tally: CellTally) -> KeyedSample:
        """Return the body unchanged."""
        return body

    # --- questions ---

    def error(self, body: KeyedSample, tally: CellTally) -> FloatArray:
        """Return the relative error of the cells of each key."""
        kept = kept_relative_error(self.capacity, self.cell_error, self.cell_failure)
        return np.full(tally.size, kept)

    def counts(self, body: KeyedSample, tally: CellTally, since: Int64Array) -> SampledCounts:
        """Return what the cells of each key count after the tick ``since``."""
        sample, stride = body.sample, body.stride
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

    def write(self, body: KeyedSample, tally: CellTally, writer: RecordWriter) -> None:
        """Write the records that :mod:`recency.samples.records` describes."""
        extra = tally.stream, tally.index, tally.totals
        states = SampleStates(body.sample, tally.seen, tally.known_latest, extra, (tally.by_id,))
        write_states(states, [NumberCodec()], writer, body.stride)

    def read(self, reader: RecordReader) -> tuple[dict[str, Any], KeyedSample]:
        """Read what :meth:`write` wrote; refuse states that no stream leads to."""
        body = self.empty(reader.size, 0)
        states = read_states(
            body.sample, self.window, _LEVELS, 3, [NumberCodec()], reader, body.stride, flags=1
        )
        sample, name = states.sample, reader.name
        weights = sample.columns[0]
        if ((weights < 1) | (weights > _MOST_WEIGHT) | (weights % 1 != 0)).any():
            corrupt(name, "a weight out of range")
        above = sample.levels - (np.frexp(weights)[1] - 1)
        if (above < 0).any() or (above > _LATER).any():
            corrupt(name, "a weight at a level that is not its own")
        stream, index, totals = states.extra
        present = np.bincount(sample.keys // body.stride, weights, reader.size)
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
        return fields, body.of(sample)


def _absorbed(
    sample: LevelSample, blocks: Sequence[tuple[NDArray[Any], ...]], cutoff: Int64Array
) -> LevelSample:
    groups, times, values = map(np.concatenate, zip(*blocks, strict=True))
    return sample.absorb(groups, times, (values,), cutoff)


def _sums(keys: Int64Array, weights: FloatArray, size: int) -> Int64Array:
    """Return sums of integers, which are exact and so do not depend on the order."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, keys, weights.astype(np.int64))
    return sums
