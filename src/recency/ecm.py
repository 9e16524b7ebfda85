"""ECM-sketch: frequencies over sliding windows (Papapetrou, Garofalakis & Deligiannakis 2012)."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.cell_sketch import ROUNDING, CellSketch
from recency.core import geometry, validate
from recency.core.arrays import FloatArray, Int64Array, UInt64Array
from recency.core.hashing import check_one, hash_items, xxh64
from recency.estimate import Estimate
from recency.timeunit import UNITS, to_duration
from recency.windowed import Duration, Time

_MOST_CELLS = 1 << 20


@dataclass(frozen=True)
class EcmConfig:
    """Configuration of an ECM-sketch; ``window`` in ticks."""

    window: int | None
    relative_error: float
    confidence: float
    counter: str
    optimize_for: str
    by: str
    late: str
    width: int
    depth: int
    cell_error: float
    cell_capacity: int | None
    seed: int
    unit: str | None


class EcmSketch(CellSketch):
    """How often each item occurred in any recent window, and how much two streams have in common.

    A count-min sketch whose counters are sliding-window counters. **Errors are relative to the
    total of the window**, not to the item's own count: with ``relative_error=0.05`` and a million
    events in the window, any count is within 50,000. That is good for the heavy items, and says
    little of the others.

    **Guarantee.** A point query is within ``relative_error`` · total with probability
    ``confidence`` (Theorems 1 and 3); an inner product within ``guarantee`` · the product of both
    totals (Theorem 2). Upper bounds are certain with ``counter="eh"`` and ``"dw"``.

    **Cost.** At the defaults 3 rows of 111 cells, each a counter with error 0.025; bytes grow with
    1/ε² and with the logarithm of the counts.

    **Merging** is bounded with ``"eh"`` and ``"dw"`` (Theorem 4, in all cells at once), exact with
    ``"rw"``, which takes ten times the memory and more.

    **Time.** With ``"eh"`` and ``"dw"`` events must not be older than ``latest``; within one
    ``update_many`` any order will do. With ``"rw"`` they come in any order.

    Parameters
    ----------
    window
        The largest window that may be asked, in ticks or as a duration (with ``unit``); None for
        no bound.
    relative_error, confidence
        In (0, 1).
    counter
        ``"eh"`` exponential histograms, ``"dw"`` deterministic waves, ``"rw"`` randomized: samples
        of events.
    optimize_for
        ``"point"`` or ``"inner_product"``: the question that ``relative_error`` is promised for.
    by
        ``"time"``, or ``"count"``: windows are the last so many updates.
    late
        ``"raise"`` an ``OutOfOrderError`` for an event before ``latest``, or ``"clamp"`` it.
    stream
        With ``"rw"``: tells apart sketches that are built side by side and merged later.
    width, depth, cell_error, cell_capacity
        The geometry; None for the one that takes the least memory.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import EcmSketch
    >>> pages = EcmSketch(window="1 day", unit="s")
    >>> pages.update_many(["/home", "/about", "/home", "/buy"] * 20_000, at=range(80_000))
    >>> answer = pages.query("/home", "1 hour")  # 3600 requests in that hour; exact: 1,800
    >>> answer.lower <= 1800 <= answer.upper and abs(float(answer) - 1800) <= 0.05 * 3600
    True
    >>> round(float(pages.self_join("1 hour")) / (1800**2 + 2 * 900**2), 1)
    1.0

    References
    ----------
    Papapetrou, Garofalakis & Deligiannakis, *Sketch-based Querying of Distributed Sliding-Window
    Data Streams*, VLDB 2012, §4–§5.
    """

    family = 7
    config: EcmConfig
    config_class = EcmConfig

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        counter: Literal["eh", "dw", "rw"] = "eh",
        optimize_for: Literal["point", "inner_product"] = "point",
        by: Literal["time", "count"] = "time",
        late: Literal["raise", "clamp"] = "raise",
        stream: int = 0,
        *,
        width: int | None = None,
        depth: int | None = None,
        cell_error: float | None = None,
        cell_capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        validate.one_of(optimize_for, "optimize_for", ("point", "inner_product"))
        self._check_order(by, late, unit)
        self._check_counter(counter, late, cell_capacity)
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        if None in (width, depth, cell_error) or (counter == "rw" and cell_capacity is None):
            best = geometry.choose(error, sure, counter == "rw", optimize_for == "inner_product")
            width = best.width if width is None else width
            depth = best.depth if depth is None else depth
            cell_error = best.cell_error if cell_error is None else cell_error
            cell_capacity = best.capacity if cell_capacity is None else cell_capacity
        self.config = EcmConfig(
            None if window is None else to_duration(window, unit),
            error,
            sure,
            counter,
            optimize_for,
            by,
            late,
            validate.integer(width, "width", 1, 1 << 24),
            validate.integer(depth, "depth", 1, 64),
            validate.fraction(cell_error, "cell_error"),
            None
            if cell_capacity is None
            else validate.integer(cell_capacity, "cell_capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        if self._size > _MOST_CELLS:
            most = f"at most {_MOST_CELLS} cells"
            raise ValueError(f"width and depth must make {most}, got {self._size}")
        self._start()
        self._stream = validate.integer(stream, "stream", 0)

    @property
    def _row_count(self) -> int:
        return self.config.depth

    def _check_item(self, item: Any) -> None:
        check_one(item, "item")

    def _hashes(self, items: Any, name: str = "item") -> UInt64Array:
        return hash_items(items, self.config.seed, name)

    def _cells_of(self, hashes: UInt64Array) -> Int64Array:
        """The cell of each item in each row: high bits of products with odd numbers.

        The hashes are seeded and mixed, so that products with different numbers are as good as
        hashes of their own.
        """
        width, depth = np.uint64(self.config.width), self.config.depth
        factors = xxh64(np.arange(depth, dtype=np.uint64), 0) | np.uint64(1)
        cells = np.empty((depth, hashes.size), dtype=np.int64)
        for row, factor in enumerate(factors):
            high = (hashes * factor) >> np.uint64(32)
            cells[row] = (high * width) >> np.uint64(32)
            cells[row] += row * self.config.width
        return cells

    # --- questions ---

    def _doubts(self) -> tuple[float, float]:
        config = self.config
        product = config.optimize_for == "inner_product"
        counters = geometry.counters_in_doubt(config.width, config.depth, product)
        return self._split_doubt(config.depth, counters)

    def _error(self, cell_error: float) -> float:
        product = self.config.optimize_for == "inner_product"
        return geometry.total_error(cell_error, self.config.width, product)

    def inner_product(
        self, other: Self, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """The sum over all items of the product of both streams' counts in (now − window, now]."""
        self._check_alike(other, "multiply")
        if now is None and self.config.by == "time":
            clocks = [each for each in (self._latest, other._latest) if each is not None]
            now = max(clocks, default=None)
        mine, theirs = (each._counts(each._since(window, now)) for each in (self, other))
        if mine is None or theirs is None:
            return Estimate(0.0, 0.0, 0.0)
        depth = self.config.depth
        doubt, cell_doubt = self._doubts()
        if self._is_sampled:  # all cells must be right
            all_cells = geometry.counters_in_doubt(self.config.width, depth, True)
            cell_doubt = (doubt - math.exp(-depth)) / (2 * all_cells)
        cells = np.arange(self._size).reshape(depth, -1)
        my_bounds, their_bounds = (each.bounds(cells, cell_doubt) for each in (mine, theirs))
        low, high = (
            _products(a, b).sum(axis=1).min() for a, b in zip(my_bounds, their_bounds, strict=True)
        )
        middle = (mine.middle[cells] * theirs.middle[cells]).sum(axis=1).min()
        most = _outward(math.prod(each.total(depth, cell_doubt)[2] for each in (mine, theirs)))
        upper = min(_outward(float(high)), most)
        lower = float(min(self._without_others(np.array(low), most), upper))
        is_certain = upper == 0 and not self._is_sampled
        value = float(np.clip(middle, lower, upper))
        return Estimate(value, lower, upper, 1.0 if is_certain else 1 - doubt)

    def self_join(self, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The sum of the squares of all items' counts in (now − window, now]."""
        return self.inner_product(self, window, now)

    def counters(
        self, window: Duration | None = None, now: Time | None = None
    ) -> NDArray[np.float64]:
        """What each cell counts in (now − window, now]: an array of ``depth`` × ``width``."""
        counts = self._counts(self._since(window, now))
        shape = self.config.depth, self.config.width
        if counts is None:
            return np.zeros(shape)
        return counts.middle[: self._size].reshape(shape).copy()

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        config = self.config
        shape = f"{config.depth} × {config.width} {config.counter}"
        return self._description(f"{shape}, total={self._total}, latest={self._latest}")


def _outward(x: float) -> float:
    """An upper bound that went through floating point: whole numbers are exact up to 2⁵³."""
    return x if x < 2.0**53 else x * (1 + ROUNDING)


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """Nothing times what may be anything is nothing."""
    return np.where((a == 0) | (b == 0), 0.0, a * np.where(a == 0, 0.0, b))
