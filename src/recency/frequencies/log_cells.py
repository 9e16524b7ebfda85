"""Cells that are rank logs: exponential histograms or deterministic waves.

Only cells that are not empty have a log. A small batch of rows updates only the logs of its cells.
The other logs may still have entries that have expired since then. This has no effect: answers,
merging and bytes are the same as after :meth:`CellLogs.expired`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core import by_key
from recency.core.arrays import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    UInt64Array,
    cutoffs,
    is_sorted,
    offsets,
    run_lengths,
    run_starts,
    stable_order,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.rank_log import (
    RankLog,
    Rule,
    before_merging,
    guarantee,
    loosest,
    tightness_for_tree,
)
from recency.counters.arrival import Arrival
from recency.counters.records import CounterStates, read_states, write_states
from recency.frequencies.cell_counts import CertainCounts
from recency.frequencies.grid import Grid
from recency.frequencies.tally import CellTally, Events

_MOST_EVENTS, _MOST_PLACED = 1 << 19, 3 << 21  # events, and events times rows, of one kernel call
_TOGETHER = 1 << 12  # (event, row) pairs to sort at once, if they are of several rows
_CACHED = 3 << 16  # (event, row) pairs whose arrays stay in the cache
_FEW = 256  # up to this many logs are updated apart from the others
_MOST_FACTOR = 1e300  # finite, and far above 2, from which on there is no bound


@dataclass(frozen=True, eq=False)
class CellLogs:
    """Logs of the cells of many keys."""

    rows: int  # of the grid
    width: int
    tightness: Int64Array  # per key
    cells: Int64Array  # per log, ascending: key · rows · width + cell
    log: RankLog

    @property
    def stride(self) -> int:
        """Number of cells of a key."""
        return self.rows * self.width

    @property
    def owners(self) -> Int64Array:
        """Key of each log."""
        return self.cells // self.stride

    @property
    def entries(self) -> int:
        """Least number of buffered rows that is worth a kernel call."""
        return self.log.entries // self.rows

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.log.nbytes + 32 * self.cells.size

    def take(self, keys: Int64Array) -> "CellLogs":
        """Return the logs of some keys."""
        begin, end = np.searchsorted(self.cells, np.stack([keys, keys + 1]) * self.stride)
        counts = end - begin
        logs = np.repeat(begin - offsets(counts)[:-1], counts) + np.arange(int(counts.sum()))
        moved = np.repeat((np.arange(keys.size) - keys) * self.stride, counts)
        tightness, cells = self.tightness[keys], self.cells[logs] + moved
        return replace(self, tightness=tightness, cells=cells, log=self.log.take(logs))

    def section(self, first: int, end: int) -> "CellLogs":
        """Return the logs of the keys in [first, end)."""
        logs = np.searchsorted(self.cells, np.array([first, end]) * self.stride).tolist()
        cells = self.cells[logs[0] : logs[1]] - first * self.stride
        tightness = self.tightness[first:end]
        return replace(self, tightness=tightness, cells=cells, log=self.log.section(*logs))

    def split(self) -> list["CellLogs"]:
        """Return one body per key."""
        return [self.section(key, key + 1) for key in range(self.tightness.size)]

    @staticmethod
    def joined(bodies: Sequence["CellLogs"]) -> "CellLogs":
        """Return one body with the keys of all, concatenated."""
        first = offsets(np.array([each.tightness.size for each in bodies]))
        tightness = np.concatenate([each.tightness for each in bodies])
        filled = [i for i, each in enumerate(bodies) if each.cells.size]
        if filled == [0] or not filled:
            return replace(bodies[0], tightness=tightness)
        stride = bodies[0].stride
        return replace(
            bodies[0],
            tightness=tightness,
            cells=np.concatenate([bodies[i].cells + first[i] * stride for i in filled]),
            log=RankLog.joined([bodies[i].log for i in filled]),
        )

    def with_cells(self, cells: Int64Array) -> tuple["CellLogs", Int64Array]:
        """Return the same with empty logs for those of ``cells`` that have none, and their places.

        ``cells`` are ascending.
        """
        places = np.searchsorted(self.cells, cells)
        new = np.append(self.cells, -1)[places] != cells
        if not new.any():
            return self, places
        union = np.insert(self.cells, places[new], cells[new])
        old = np.searchsorted(union, self.cells)
        log = self.log.among(old, self.tightness[union // self.stride])
        return replace(self, cells=union, log=log), places + offsets(new.view(np.int8))[:-1]

    def expired(self, cutoff: Int64Array) -> "CellLogs":
        """Return the same without entries up to the cutoff of each key."""
        return replace(self, log=self.log.expired(cutoff[self.owners]))


class LogCells:
    """Cells that are rank logs, as a part of :class:`CellAlgorithm`."""

    needs_order = True
    merge_law = "bounded"
    draws_coins = False
    drawn_columns = 0
    least_flush = 1 << 19  # rows; each may update many cells
    most_weight = INT64_MAX
    cell_failure = product_failure = 0.0

    def __init__(
        self, rule: Rule, cell_error: float, grid: Grid, window: int | None, arrival: Arrival
    ) -> None:
        self.rule, self.cell_error, self.grid = rule, cell_error, grid
        self.window, self.arrival = window, arrival
        self.tightness = rule.tightness(cell_error)
        self.kind = rule.name
        self._batch = max(min(_MOST_EVENTS, _MOST_PLACED // grid.rows), 1)

    def empty(self, size: int, merge_levels: int) -> CellLogs:
        """Return keys without logs."""
        tightness = self.tightness
        if merge_levels:
            tightness = tightness_for_tree(self.rule, self.cell_error, merge_levels)
        return self._body(np.full(size, tightness), np.empty(0, dtype=np.int64))

    def _body(self, tightness: Int64Array, cells: Int64Array) -> CellLogs:
        log = RankLog.empty(self.rule, tightness[cells // self.grid.size])
        return CellLogs(self.grid.rows, self.grid.width, tightness, cells, log)

    # --- update ---

    def draw(
        self, tally: CellTally, events: Events, counted: Any
    ) -> tuple[dict[str, Any], tuple[NDArray[Any], ...]]:
        """Draw nothing: rank logs need no coins."""
        return {}, ()

    def absorb(
        self,
        body: CellLogs,
        tally: CellTally,
        keys: Int64Array,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
    ) -> CellLogs:
        """Append rows in order of keys and times, some keys at a time to stay in the cache."""
        cutoff, step = cutoffs(tally.latest, self.window), max(_CACHED // self.grid.rows, 1)
        order = None if is_sorted(ticks) else np.argsort(ticks, kind="stable")
        if tally.size > 1:
            of_keys = stable_order(keys if order is None else keys[order])
            order = of_keys if order is None else order[of_keys]
        begins = offsets(by_key.counts(keys, tally.size))
        firsts = np.searchsorted(begins, np.arange(step, ticks.size, step), side="right") - 1
        firsts = np.unique([0, *firsts.tolist(), tally.size])  # keys that a section begins with
        bounds = begins[firsts].tolist()
        sections = []
        for (first, end), (begin, stop) in zip(
            pairwise(firsts.tolist()), pairwise(bounds), strict=True
        ):
            part = body.section(first, end)
            for at in range(begin, stop, self._batch):
                some: Any = slice(at, min(at + self._batch, stop))
                some = some if order is None else order[some]
                cells = self.grid.cells_of(hashes[some])
                own = cutoff[first:end], keys[some] - first
                part = _put(part, *own, cells, ticks[some], weights[some])
            sections.append(part)
        return CellLogs.joined(sections)

    # --- merge ---

    def merge(
        self, body: CellLogs, tally: CellTally, merged: CellTally, into: Int64Array
    ) -> tuple[dict[str, Any], CellLogs]:
        """Merge as in Papapetrou et al. 2012, Theorem 4, in all cells at once, like counters."""
        size = merged.size
        counting = tally.totals > 0
        several = by_key.counts(into[counting], size) > 1
        replayed = counting & several[into]
        factor, tightness = np.ones(size), np.zeros(size, dtype=np.int64)
        grown = tally.merge_factor * (1 + self.rule.relative_error(body.tightness))
        np.maximum.at(factor, into, np.where(replayed, grown, tally.merge_factor))
        # The tightness of operands with counts, if there are any, otherwise of those with events.
        weight = tally.seen.astype(np.int64) + counting
        most = by_key.raised(np.zeros(size, dtype=np.int64), into, weight)
        first = np.zeros(into.size, dtype=np.bool_)
        first[by_key.firsts(into, size)] = True
        decides = (weight == most[into]) & ((weight > 0) | first)
        np.maximum.at(tightness, into[decides], body.tightness[decides])

        cells = into[body.owners] * body.stride + body.cells % body.stride
        out = self._body(tightness, np.unique(cells))
        places = np.searchsorted(out.cells, cells)
        own_cutoff, cutoff = (cutoffs(each.latest, self.window) for each in (tally, merged))
        again = replayed[body.owners]
        kept = np.flatnonzero(~again)
        kept = kept[np.argsort(places[kept])]
        log = body.log.take(kept).among(places[kept], out.log.tightness)
        if again.any():
            rows = np.flatnonzero(again)
            own = own_cutoff[body.owners[rows]]
            operands = body.log.take(rows).expired(own)
            log = operands.replayed_into(log, places[rows], own, cutoff[out.owners])
        changes = {"merge_factor": np.minimum(factor, _MOST_FACTOR)}
        return changes, replace(out, log=log)

    def drawn(self, tally: CellTally) -> BoolArray:
        """Return False for each key: there are no coins."""
        return np.zeros(tally.size, dtype=np.bool_)

    def finalize(self, body: CellLogs, tally: CellTally) -> CellLogs:
        """Drop the tightness that the configured error does not need after these merges."""
        enough = loosest(self.rule, self.cell_error, tally.merge_factor)
        tightness = np.minimum(body.tightness, enough)
        cutoff = cutoffs(tally.latest, self.window)[body.owners]
        log = body.log.loosened(tightness[body.owners], cutoff)
        return replace(body, tightness=tightness, log=log)

    # --- questions ---

    def error(self, body: CellLogs, tally: CellTally) -> FloatArray:
        """Return the relative error of the cells of each key, merging included."""
        log_error: FloatArray = self.rule.relative_error(body.tightness)
        return guarantee(tally.merge_factor, log_error)

    def counts(self, body: CellLogs, tally: CellTally, since: Int64Array) -> CertainCounts:
        """Return what the cells of each key count after the tick ``since``."""
        keys = body.owners
        cutoff = cutoffs(tally.latest, self.window)
        lower, upper = body.log.bounds(since[keys], cutoff[keys])
        middle = (lower.astype(np.float64) + upper) / 2
        factor = tally.merge_factor[keys]
        lower, upper = before_merging(lower, upper, body.log.totals, factor)
        return CertainCounts(tally.size, self.grid, body.stride, body.cells, lower, middle, upper)

    # --- bytes ---

    def write(self, body: CellLogs, tally: CellTally, writer: RecordWriter) -> None:
        """Write records as in :mod:`recency.counters.records`, with all cells of each used key."""
        body = body.expired(cutoffs(tally.latest, self.window))
        numbers = offsets(tally.seen.astype(np.int64))  # of used keys
        cells = numbers[body.owners] * body.stride + body.cells % body.stride
        tightness = np.repeat(body.tightness[tally.seen], body.stride)
        states = CounterStates(body.log.among(cells, tightness), body.tightness, tally)
        write_states(states, self.tightness, writer, logs=body.stride)

    def read(self, reader: RecordReader) -> tuple[dict[str, Any], CellLogs]:
        """Read what :meth:`write` wrote."""
        grid = self.grid
        states = read_states(self.rule, self.tightness, self.window, reader, logs=grid.size)
        states.check_order(reader.name, self.arrival.by, self.arrival.late)
        by_row = states.log.totals.reshape(-1, grid.rows, grid.width)
        sums = by_row.astype(object).sum(axis=2) if (by_row > 2**31).any() else by_row.sum(axis=2)
        if (sums != sums[:, :1]).any() or (sums[:, :1] > INT64_MAX).any():
            corrupt(reader.name, "rows that count different numbers of events")
        totals = np.zeros(reader.size, dtype=np.int64)
        tally = replace(states.tally, totals=totals)
        totals[tally.seen] = sums[:, 0]
        if ((tally.merge_factor > 1) & (totals == 0)).any():
            corrupt(reader.name, "merged, and nothing was counted")
        filled = np.flatnonzero(states.log.totals)
        key, cell = np.flatnonzero(tally.seen)[filled // grid.size], filled % grid.size
        log = states.log.take(filled)
        body = CellLogs(grid.rows, grid.width, states.tightness, key * grid.size + cell, log)
        return vars(tally), body


def _put(
    body: CellLogs,
    cutoff: Int64Array,
    keys: Int64Array,
    cells: Int32Array,
    ticks: Int64Array,
    weights: Int64Array,
) -> CellLogs:
    """Append events in order of keys and times; ``cells`` has one row per row of the grid."""
    numbers, added, events = _by_cell(keys, cells, body.stride, cutoff.size)
    body, places = body.with_cells(numbers)
    sizes = body.log.starts[places + 1] - body.log.starts[places]
    few = places.size <= _FEW and 2 * int(sizes.sum()) < body.log.entries
    log = body.log.take(places) if few else body.log
    logs = np.arange(places.size) if few else places
    owners = numbers // body.stride if few else body.owners
    is_strict = (ticks[1:] > ticks[:-1]) | (keys[1:] != keys[:-1])
    if (weights == 1).all() and is_strict.all():
        counts = np.zeros(log.size, dtype=np.int64)
        counts[logs] = added
        log = log.append_units(counts, lambda rows: ticks[events[rows]], cutoff[owners])
    else:
        log = log.append_sorted(
            np.repeat(logs, added), ticks[events], weights[events], cutoff[owners]
        )
    return replace(body, log=body.log.replaced(places, log) if few else log)


def _by_cell(
    keys: Int64Array, cells: Int32Array, stride: int, size: int
) -> tuple[Int64Array, Int64Array, Int32Array]:
    """Return the cells with events (ascending), their counts, and the events cell by cell.

    The rows of the grid of a single key are sorted separately, since a radix sort then needs fewer
    digits, unless there are few events.
    """
    rows, events = cells.shape
    width = stride // rows
    together = rows if size > 1 else max(1, _TOGETHER // events)
    numbers, added, orders = [], [], np.empty(cells.shape, dtype=np.int32)
    for first in range(0, rows, together):
        block = cells[first : first + together]
        span = size * len(block) * width
        local = (block + keys * stride if size > 1 else block - first * width).ravel()
        order = stable_order(local)
        if 32 * span <= local.size:
            ends = np.searchsorted(local, np.arange(span + 1, dtype=local.dtype), sorter=order)
            counts = np.diff(ends)
            distinct = np.flatnonzero(counts)
            counts = counts[distinct]
        else:
            in_order = local[order]
            starts = run_starts(in_order)
            distinct, counts = in_order[starts], run_lengths(starts, in_order.size)
        numbers.append(distinct + first * width)
        added.append(counts)
        in_row = order if len(block) == 1 else order % events
        orders[first : first + together] = in_row.reshape(block.shape)
    return np.concatenate(numbers), np.concatenate(added), orders.ravel()
