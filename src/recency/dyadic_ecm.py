"""Heavy hitters, ranges and quantiles over sliding windows (Papapetrou et al. 2012, §6.1)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, Self

import numpy as np

from recency.cell_sketch import RULES, CellSketch
from recency.core import geometry, validate
from recency.core.arrays import (
    FloatArray,
    Int64Array,
    UInt64Array,
    counts_reaching,
    floats_above,
    floats_below,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.hashing import check_one, hash_items, xxh64
from recency.core.rank_log import kept_ranks
from recency.core.row_sums import RowSums, markov
from recency.core.sizing import capacity_for_count
from recency.ecm_cells import Counts, LogCells
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.name_sample import IDENTITY_BITS, NameSample, NameTally, capacity_for_names
from recency.timeunit import UNITS, to_duration
from recency.windowed import Duration, Time

_MOST_CELLS = 1 << 21
_BLOCK = 1 << 13  # events whose cells are looked up in one pass: temporaries that stay in the cache
_HALF = np.uint64(32)
_PER_ENTRY, _PER_CELL, _PER_NAME = 24, 24, 150  # bytes
_LEAST_THRESHOLD = 1e-9


@dataclass(frozen=True)
class DyadicConfig:
    """Configuration of a dyadic ECM-sketch; ``window`` in ticks."""

    window: int | None
    relative_error: float
    confidence: float
    counter: str
    by: str
    late: str
    universe_bits: int
    min_threshold: float
    names: bool
    width: int
    depth: int
    range_depth: int
    cell_error: float
    cell_capacity: int | None
    name_capacity: int | None
    seed: int
    unit: str | None


class DyadicEcm(CellSketch):
    """The heavy hitters of any recent window, counts of ranges, and quantiles, of integers.

    An ECM-sketch for each scale 2ⁱ: the one of scale i counts the ranges [k·2ⁱ, (k+1)·2ⁱ). Heavy
    hitters are found by halving ranges that are heavy enough. **Errors are relative to the total of
    the window.**

    **Guarantee.** :meth:`heavy_hitters` of a share φ returns every item with at least
    φ + ``relative_error`` of the window's total — certainly, with ``counter="eh"`` and ``"dw"`` —
    and with probability ``confidence`` none with less than φ (Theorem 5; for φ ≤ (1 − 3ε)/4). A
    point query is within ``guarantee`` · total, a range count within 2 · ``universe_bits`` times
    that at most; intervals say what holds for each answer.

    **Cost.** At the defaults 88 rows of 56 cells: see :meth:`forecast`. Scales with no more ranges
    than a row has cells have a cell for each range, and need no other row.

    **Merging** is bounded with ``"eh"`` and ``"dw"`` (Theorem 4), exact with ``"rw"``, which takes
    many times the memory.

    **Time.** With ``"eh"`` and ``"dw"`` events must not be older than ``latest``; within one
    ``update_many`` any order will do.

    Parameters
    ----------
    window
        The largest window that may be asked, in ticks or as a duration (with ``unit``); None for
        no bound.
    relative_error, confidence
        In (0, 1).
    counter
        ``"eh"`` exponential histograms, ``"dw"`` deterministic waves, ``"rw"`` samples.
    by
        ``"time"``, or ``"count"``: windows are the last so many updates.
    late
        ``"raise"`` an ``OutOfOrderError`` for an event before ``latest``, or ``"clamp"`` it.
    stream
        Tells apart sketches that are built side by side and merged later (``"rw"``, ``names``).
    universe_bits
        Items are integers from 0 to 2^bits − 1. With ``names``, bits of their hashes.
    min_threshold
        The least share that heavy hitters may be asked for.
    names
        Items are strings, bytes or any integers; heavy hitters come back by their names, as
        :class:`NameSample <recency.name_sample.NameSample>` knows them, or else as the integer that
        stands for their hash. Ranges and quantiles are refused.
    width, depth, range_depth, cell_error, cell_capacity, name_capacity
        The geometry; None for what the error takes. ``depth`` rows count items, ``range_depth``
        rows each other scale.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import DyadicEcm
    >>> ports = DyadicEcm(window="1 day", unit="s", universe_bits=16)
    >>> ports.update_many([443, 443, 22, 443, 8080, 80] * 10_000, at=range(60_000))
    >>> [port for port, _ in ports.heavy_hitters(0.3, "1 hour")]
    [443]
    >>> answer = ports.range_count(0, 1023, "1 hour")  # exact: 3,000
    >>> answer.lower <= 3000 <= answer.upper
    True
    >>> float(ports.quantile(0.5, "1 hour"))
    443.0

    References
    ----------
    Papapetrou, Garofalakis & Deligiannakis, *Sketch-based Querying of Distributed Sliding-Window
    Data Streams*, VLDB 2012, §6.1. Cormode & Muthukrishnan, *An improved data stream summary: the
    count-min sketch and its applications*, 2005, §4.
    """

    family = 9
    config: DyadicConfig
    config_class = DyadicConfig

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.1,
        confidence: float = 0.95,
        counter: Literal["eh", "dw", "rw"] = "eh",
        by: Literal["time", "count"] = "time",
        late: Literal["raise", "clamp"] = "raise",
        stream: int = 0,
        *,
        universe_bits: int = 32,
        min_threshold: float = 0.01,
        names: bool = False,
        width: int | None = None,
        depth: int | None = None,
        range_depth: int | None = None,
        cell_error: float | None = None,
        cell_capacity: int | None = None,
        name_capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        validate.one_of(counter, "counter", ("eh", "dw", "rw"))
        self._check_order(by, late, unit)
        self._check_counter(counter, late, cell_capacity)
        if not isinstance(names, bool):
            raise TypeError(f"names must be a bool, got {type(names).__name__}")
        if name_capacity is not None and not names:
            raise ValueError("name_capacity is for names=True alone")
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        bits = validate.integer(universe_bits, "universe_bits", 1, IDENTITY_BITS if names else 63)
        least = validate.fraction(min_threshold, "min_threshold")
        if least < _LEAST_THRESHOLD:
            raise ValueError(f"min_threshold must be at least {_LEAST_THRESHOLD:g}, got {least:g}")
        best = geometry.choose(error, sure, counter == "rw", False)
        range_depth = best.depth if range_depth is None else range_depth
        range_depth = validate.integer(range_depth, "range_depth", 1, 64)
        if depth is None:
            depth = min(_rows_for_items(least, 1 - sure, range_depth), 64)
        depth = validate.integer(depth, "depth", range_depth, 64)
        if counter == "rw" and cell_capacity is None:
            left = geometry.left_to_counters(1 - sure, depth)
            counters = geometry.counters_in_doubt(0, depth, False)
            cell_capacity = capacity_for_count(best.cell_error, left / counters)
        if names and name_capacity is None:
            name_capacity = capacity_for_names(least, 1 - sure)
        self.config = DyadicConfig(
            None if window is None else to_duration(window, unit),
            error,
            sure,
            counter,
            by,
            late,
            bits,
            least,
            names,
            validate.integer(best.width if width is None else width, "width", 2, 1 << 20),
            depth,
            range_depth,
            validate.fraction(best.cell_error if cell_error is None else cell_error, "cell_error"),
            None
            if cell_capacity is None
            else validate.integer(cell_capacity, "cell_capacity", 1, 2**31),
            None
            if name_capacity is None
            else validate.integer(name_capacity, "name_capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        if self._size > _MOST_CELLS:
            raise ValueError(
                f"width, depth and range_depth must make at most {_MOST_CELLS} cells, "
                f"got {self._size}"
            )
        self._start()
        self._set_stream(validate.integer(stream, "stream", 0))

    def _start(self, tightness: int | None = None) -> None:
        super()._start(tightness)
        config = self.config
        self._names: NameTally | None = None
        if config.name_capacity is not None:
            self._names = NameTally(NameSample(config.window, config.name_capacity, config.seed))

    # --- scales and rows ---

    @property
    def _exact_scale(self) -> int:
        """The finest scale with a cell for each range."""
        return max(self.config.universe_bits - self.config.width.bit_length() + 1, 0)

    @property
    def _noisy(self) -> bool:  # type: ignore[override]
        return self._exact_scale > 0

    @property
    def _row_count(self) -> int:
        """Rows of scale 0, of scale 1, …, and the one with a cell for each range."""
        noisy = self._exact_scale
        return (self.config.depth + (noisy - 1) * self.config.range_depth if noisy else 0) + 1

    def _rows_of(self, scale: int) -> range:
        depth, range_depth = self.config.depth, self.config.range_depth
        if scale == self._exact_scale:
            return range(self._row_count - 1, self._row_count)
        first = depth + (scale - 1) * range_depth if scale else 0
        return range(first, first + (range_depth if scale else depth))

    def _cells_of(self, hashes: UInt64Array) -> Int64Array:
        cells = np.empty((self._row_count, hashes.size), dtype=np.int64)
        for begin in range(0, hashes.size, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            values = self._values(hashes[block])
            for scale in range(self._exact_scale + 1):
                rows = self._rows_of(scale)
                cells[rows.start : rows.stop, block] = self._cells_of_nodes(scale, values)
                values = values >> np.uint64(1)
        return cells

    def _cells_of_nodes(self, scale: int, nodes: UInt64Array) -> Int64Array:
        """The cell of each range of a scale, in each row of that scale."""
        rows = np.array(self._rows_of(scale))[:, None]
        if scale == self._exact_scale:
            return rows * self.config.width + nodes.view(np.int64)
        return self._hashed(rows, scale, nodes)

    def _hashed(self, rows: Int64Array, scales: int | Int64Array, nodes: UInt64Array) -> Int64Array:
        """The cell of each range in some rows of its scale: high bits of products with odd numbers.

        Ranges are mixed with the seed and their scale first, so that products with different
        numbers are as good as hashes of their own.
        """
        factors, keys = _factors(self.config.seed, self._row_count, self._exact_scale)
        cells = factors[rows] * _mixed(nodes + keys[scales])
        cells >>= _HALF
        cells *= np.uint64(self.config.width)
        cells >>= _HALF
        placed: Int64Array = cells.view(np.int64) + rows * self.config.width
        return placed

    def _cells_of_points(self, hashes: UInt64Array) -> Int64Array:
        return self._cells_of_nodes(0, self._values(hashes))

    def _values(self, hashes: UInt64Array) -> UInt64Array:
        """Items as integers of the universe: themselves, or the highest bits of their hashes."""
        if not self.config.names:
            return hashes
        return hashes >> np.uint64(64 - self.config.universe_bits)

    # --- update ---

    def _check_item(self, item: Any) -> None:
        if self.config.names:
            check_one(item, "item")
        else:
            validate.integer(item, "item", 0, self._largest)

    def _hashes(self, items: Any, name: str = "item") -> UInt64Array:
        if self.config.names:
            return hash_items(items, self.config.seed, name)
        values = validate.integers(items, name, 0, self._largest)
        return np.atleast_1d(values).view(np.uint64)

    @property
    def _largest(self) -> int:
        return (1 << self.config.universe_bits) - 1

    @property
    def _draws_coins(self) -> bool:
        return self._is_sampled or self.config.names

    def _buffer(
        self,
        items: Any,
        hashes: UInt64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array | None,
    ) -> None:
        if self._names is not None:
            self._names.put(items, hashes, ticks, weights, coins)
        super()._buffer(items, hashes, ticks, weights, coins)

    def _settle(self) -> None:
        super()._settle()
        if self._names is not None:
            self._names.settle()

    # --- merge and bytes: the names go along ---

    @property
    def _has_drawn_coins(self) -> bool:
        names = self._names
        by_names = names is not None and not names.is_empty and not names._by_id
        return super()._has_drawn_coins or by_names

    def _set_stream(self, stream: int) -> None:
        self._stream = stream
        if self._names is not None:
            self._names._stream = stream

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sketch of the same configuration, tight enough for so many levels of merging."""
        empty = super().empty_like(merge_levels, stream)
        empty._set_stream(empty._stream)
        return empty

    def _become(self, other: Self) -> None:
        super()._become(other)
        if other._names is not None:
            self._names = other._names.copy()

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = super()._merged(sketches)
        names = [sketch._names for sketch in sketches if sketch._names is not None]
        seen = [each for each in names if not each.is_empty]
        if seen:
            merged._names = NameTally.merged(seen) if len(seen) > 1 else seen[0].copy()
        merged._set_stream(merged._stream)
        return merged

    def _finish(self, prototype: Self) -> None:
        super()._finish(prototype)
        self._set_stream(self._stream)

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        names = ["name_capacity"] if settings.get("names") else []
        return [*super()._always_written(settings), "range_depth", *names]

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        super()._write(sketches, writer)
        names = [sketch._names for sketch in sketches if sketch._names is not None]
        if names:
            NameTally.write(names, writer)

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        sketches = super()._read(prototype, reader)
        if prototype._names is not None:
            for sketch, names in zip(
                sketches, NameTally.read(prototype._names._names, reader), strict=True
            ):
                cls._check_names(sketch, names)
                sketch._names = names
                sketch._stream = names._stream
        return sketches

    @staticmethod
    def _check_names(sketch: "DyadicEcm", names: NameTally) -> None:
        name = type(sketch).__name__
        if names.latest is None:
            if sketch._total:
                corrupt(name, "events without names")
        elif sketch._latest is None or not sketch._total or names.latest > sketch._latest:
            corrupt(name, "names without events")
        if names._index > sketch._total or names._index < bool(sketch._total):
            corrupt(name, "names of more events than there were")
        if sketch._is_sampled and names._stream != sketch._stream:
            corrupt(name, "names of another stream")

    # --- questions ---

    def _doubts(self) -> tuple[float, float]:
        depth = self.config.depth
        return self._split_doubt(depth, geometry.counters_in_doubt(0, depth, False))

    def _error(self, cell_error: float) -> float:
        if not self._noisy:
            return cell_error
        return geometry.total_error(cell_error, self.config.width, False)

    def _nodes(
        self, counts: Counts, scale: int, nodes: UInt64Array, doubt: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What ranges of a scale count in each row: estimates, the least and the most."""
        cells = self._cells_of_nodes(scale, nodes)
        return counts.middle[cells], *counts.bounds(cells, doubt)

    def heavy_hitters(
        self, threshold: float, window: Duration | None = None, now: Time | None = None
    ) -> list[tuple[Any, Estimate]]:
        """Items of the events in (now − window, now] that reach ``threshold``, largest first.

        A float in (0, 1) is a share φ of them all, an integer ≥ 1 a count. All items from
        φ + ``guarantee`` on are there; with probability ``confidence`` none below φ, as long as
        φ ≤ (1 − 3 · ``guarantee``)/4. With
        ``names``, one that has no name comes as the integer that stands for its hash.
        """
        share, count = self._threshold(threshold)
        since = self._since(window, now)
        counts = self._counts(since)
        if counts is None:
            return []
        doubt = self._doubt_per_counter()
        _, total, _ = counts.total(self._row_count, doubt)
        if count and count < self.config.min_threshold * total:
            least = f"at least {self.config.min_threshold:g} of all {total:g}"
            raise ValueError(f"threshold must be {least} (min_threshold), got {count}")
        # No heavy hitter is below: neither the most that it can be, nor its estimate.
        cell_error = self._cell_error()
        floor = share * total + count + self._error(cell_error) * total
        if not floor:
            return []
        nodes = np.arange(self._ranges(self._exact_scale), dtype=np.uint64)
        for scale in range(self._exact_scale, -1, -1):
            estimates, _, most = (
                each.min(axis=0) for each in self._nodes(counts, scale, nodes, doubt)
            )
            nodes = nodes[(most >= floor) & (estimates >= (1 - cell_error) * floor)]
            if scale:
                nodes = np.repeat(nodes << np.uint64(1), 2)
                nodes[1::2] += np.uint64(1)
        answer = self._points(counts, self._cells_of_nodes(0, nodes))
        order = np.lexsort((nodes, -answer.value))
        names: dict[int, Any] = {}
        if self._names is not None:
            names = self._names.names(self.config.universe_bits, since)
        columns = (answer.value, answer.lower, answer.upper)
        hitters = []
        for i in order.tolist():
            value, lower, upper = (float(column[i]) for column in columns)
            item = int(nodes[i])
            hitters.append(
                (names.get(item, item), Estimate(value, lower, upper, answer.confidence))
            )
        return hitters

    def _threshold(self, threshold: Any) -> tuple[float, int]:
        """A share or a count; the other is 0."""
        share, is_share = validate.share_or_count(threshold, "threshold")
        if not is_share:
            return 0.0, int(share)
        if share < self.config.min_threshold:
            raise ValueError(
                f"threshold must be at least {self.config.min_threshold:g} (min_threshold), "
                f"got {share:g}"
            )
        return share, 0

    def range_count(
        self, lo: int, hi: int, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """How many events in (now − window, now] had an item from ``lo`` to ``hi``, both included.

        The sum of at most two ranges of each scale, each of which adds to the error.
        """
        self._refuse_names("range_count")
        low = validate.integer(lo, "lo", 0, self._largest)
        high = validate.integer(hi, "hi", 0, self._largest)
        if low > high:
            raise ValueError(f"lo must not be above hi, got {low} and {high}")
        counts = self._counts(self._since(window, now))
        if counts is None:
            return Estimate(0.0, 0.0, 0.0)
        doubt = self._doubt_per_counter()
        total = counts.total(self._row_count, doubt)
        sums = RowSums(self.config.width, self.config.range_depth, total)
        squares = self._squares(counts, doubt)
        scales, ends, low, end = self._taken_apart(low, high + 1)
        if ends.size:
            rows = np.array([self._rows_of(int(scale)).start for scale in scales])
            rows = rows + np.arange(self.config.range_depth)[:, None]
            cells = self._hashed(rows, scales, ends)
            sums.add(scales, counts.middle[cells], *counts.bounds(cells, doubt), squares)
        if low < end:
            nodes = np.arange(low, end, dtype=np.uint64)
            sums.add_exact(*self._nodes(counts, self._exact_scale, nodes, doubt))
        parts = 3 if self._is_sampled else 2
        value, lower, upper = sums.answer((1 - self.config.confidence) / parts)
        is_certain = not self._is_sampled and (not sums.nodes or not upper)
        return Estimate(value, lower, upper, 1.0 if is_certain else self.config.confidence)

    def _taken_apart(self, low: int, end: int) -> tuple[Int64Array, UInt64Array, int, int]:
        """Ranges that make up [low, end), and their scales; what is left, at the exact scale."""
        scales, nodes = [], []
        for scale in range(self._exact_scale):
            # Those that are left over when both ends become even.
            ends = [low] * (low & 1) + [end - 1] * (end & 1) if low < end else []
            nodes += ends
            scales += [scale] * len(ends)
            low, end = (low + 1) >> 1, end >> 1
        return np.array(scales, dtype=np.int64), np.array(nodes, dtype=np.uint64), low, end

    def _squares(self, counts: Counts, doubt: float) -> FloatArray:
        """For each noisy scale, at least the sum of the squares of what its ranges count."""
        if not self._noisy:
            return np.zeros(0)
        cells = np.arange(self._size).reshape(self._row_count, -1)
        _, upper = counts.bounds(cells, doubt)
        of_rows = (upper**2).sum(axis=1)
        starts = [self._rows_of(scale).start for scale in range(self._exact_scale)]
        return np.minimum.reduceat(of_rows[:-1], starts)

    def quantile(
        self, q: float = 0.5, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """The least item such that a share ``q`` of the events in (now − window, now] is up to it.

        The lower end of the interval is certain with ``counter="eh"`` and ``"dw"``.
        """
        self._refuse_names("quantile")
        share = validate.number(q, "q", 0, 1)
        counts = self._counts(self._since(window, now))
        doubt = self._doubt_per_counter()
        total = (0.0, 0.0, 0.0) if counts is None else counts.total(self._row_count, doubt)
        if counts is None or not total[2]:
            raise NoAnswerError("a quantile needs events, and the window has none")
        # Before the quantile there is less than the target, and with it no less.
        value, least, most = (max(float(counts_reaching(share, each)), 1.0) for each in total)
        parts = 2 if self._is_sampled else 1
        noise = markov((1 - self.config.confidence) / parts, self.config.range_depth)
        noise *= self._exact_scale * total[2] / self.config.width
        lower = self._descend(counts, _most, least, doubt)
        upper = self._descend(counts, _least, most, doubt, noise)
        upper = max(lower, upper)
        debiased = partial(_debiased, total=total[0], width=self.config.width)
        middle = min(max(self._descend(counts, debiased, value, doubt), lower), upper)
        sure = 1.0 if lower == upper and not self._is_sampled else self.config.confidence
        low, high = floats_below(np.array(lower)), floats_above(np.array(upper))
        return Estimate(float(middle), float(low), float(high), sure)

    def _descend(
        self,
        counts: Counts,
        count: Callable[[Any, bool], FloatArray],
        target: float,
        doubt: float,
        noise: float = 0.0,
    ) -> int:
        """The last item before which there is less than ``target``, by some count of ranges.

        If counts are never less than the truth, no item whose rank reaches the target is before it.
        If they are never more than the truth and ``noise``, no item before which there is less than
        the target is after it; and none is in a later range of the scale without noise.
        """
        scale = self._exact_scale
        found = self._nodes(counts, scale, np.arange(self._ranges(scale), dtype=np.uint64), doubt)
        upto = np.cumsum(count(found, False))
        node = min(int(np.searchsorted(upto, target)), upto.size - 1)
        before = float(upto[node - 1]) if node else 0.0
        while scale:
            scale -= 1
            node *= 2
            found = self._nodes(counts, scale, np.array([node], dtype=np.uint64), doubt)
            left = float(count(found, True)[0])
            if before + left < target + noise:
                before += left
                node += 1
        return node

    def _ranges(self, scale: int) -> int:
        """How many ranges of a scale there are."""
        return 1 << (self.config.universe_bits - scale)

    def _doubt_per_counter(self) -> float:
        """So that all counters are right but for a third of the doubt in an answer."""
        return (1 - self.config.confidence) / 3 / (self._size + 1) if self._is_sampled else 0.0

    def _refuse_names(self, question: str) -> None:
        if self.config.names:
            raise ValueError(f"{question} needs integers: hashes of names have no order")

    def forecast(self, events: int, seen: int | None = None) -> int:
        """Bytes of memory, at most, for ``"eh"`` and ``"dw"``.

        With so many events of weight 1 in the largest window, and ``seen`` in all: a thousand times
        as many, unless it is given. Most is taken if they are spread evenly over the cells. As
        bytes, for storage, a sketch takes about an eighth of it.
        """
        config = self.config
        if self._is_sampled:
            raise ValueError('forecast is for counter="eh" and "dw"')
        most = validate.integer(events, "events", 0)
        ever = 1000 * most if seen is None else validate.integer(seen, "seen", most)
        rule = RULES[config.counter]
        tightness = self._tightness or rule.tightness(config.cell_error)
        if isinstance(self._cells, LogCells):
            tightness = int(self._cells.log.tightness[0])
        kept = int(kept_ranks(rule, np.array([-(-most // config.width)]), tightness)[0])
        expired = (ever // config.width).bit_length()  # at most one of each level
        size = self._size * (_PER_ENTRY * (kept + expired) + _PER_CELL)
        if config.name_capacity is not None:
            levels = 1 + (most // config.name_capacity).bit_length()
            size += _PER_NAME * min(levels * config.name_capacity, most)
        return size

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        shape = f"{self._row_count} × {self.config.width} {self.config.counter}"
        return self._description(f"{shape}, total={self._total}, latest={self._latest}")


@lru_cache(maxsize=64)
def _factors(seed: int, rows: int, scales: int) -> tuple[UInt64Array, UInt64Array]:
    """An odd number for each row, and a number for each scale."""
    numbers = xxh64(np.arange(rows + scales, dtype=np.uint64), seed & (2**64 - 1))
    return numbers[:rows] | np.uint64(1), numbers[rows:]


def _mixed(x: UInt64Array) -> UInt64Array:
    """Every bit depends on every bit (Stafford's thirteenth variant of Murmur's last step)."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _rows_for_items(least_share: float, doubt: float, range_depth: int) -> int:
    """Rows that keep all light items out of the heavy hitters.

    At each scale at most 1/φ ranges are heavy, and of those that are not and yet looked at, a share
    e⁻ʳ passes: some (2/φ) / (1 − 2e⁻ʳ) are looked at, each of which passes d rows with e⁻ᵈ. Other
    rows than those of single items cannot let a light item through.
    """
    looked_at = 2 / least_share / max(1 - 2 * math.exp(-range_depth), 0.25)
    return max(math.ceil(math.log(looked_at / doubt)), range_depth)


Found = tuple[FloatArray, FloatArray, FloatArray]


def _least(found: Found, noisy: bool) -> FloatArray:
    return np.asarray(found[1].min(axis=0))


def _most(found: Found, noisy: bool) -> FloatArray:
    return np.asarray(found[2].min(axis=0))


def _debiased(found: Found, noisy: bool, total: float, width: int) -> FloatArray:
    """Without what others add on average: (total − x) / width."""
    middle = np.median(found[0], axis=0)
    return np.clip((middle * width - total) / (width - 1), 0.0, None) if noisy else middle
