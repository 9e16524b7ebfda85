"""ECM-sketch: frequencies over sliding windows (Papapetrou, Garofalakis & Deligiannakis 2012)."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import State, View
from recency.core import geometry, validate
from recency.core.arrays import FloatArray, Int64Array
from recency.counters.arrival import Arrival
from recency.estimate import Estimate
from recency.frequencies.algorithm import CellAlgorithm
from recency.frequencies.cell_sketch import (
    CellSketch,
    check_counter,
    counts_of,
    settings_of,
    without_others,
)
from recency.frequencies.grid import ROUNDING, Grid, HashGrid
from recency.questions import question, question_of_a_key
from recency.timeunit import UNITS, Duration, Time, to_duration

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
        *,
        counter: Literal["eh", "dw", "rw"] = "eh",
        optimize_for: Literal["point", "inner_product"] = "point",
        by: Literal["time", "count"] = "time",
        late: Literal["raise", "clamp"] = "raise",
        stream: int = 0,
        width: int | None = None,
        depth: int | None = None,
        cell_error: float | None = None,
        cell_capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        validate.one_of(optimize_for, "optimize_for", ("point", "inner_product"))
        check_counter(counter, late, cell_capacity)
        Arrival(by, late, unit)
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        product = optimize_for == "inner_product"
        if None in (width, depth, cell_error) or (counter == "rw" and cell_capacity is None):
            best = geometry.choose(error, sure, counter == "rw", product)
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
        grid = HashGrid(self.config.width, self.config.depth, product, self.config.seed)
        if grid.size > _MOST_CELLS:
            most = f"at most {_MOST_CELLS} cells"
            raise ValueError(f"width and depth must make {most}, got {grid.size}")
        super().__init__(CellAlgorithm(grid, *settings_of(self.config, grid)), stream)

    # --- questions ---

    def inner_product(
        self, other: Self, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """The sum over all items of the product of both streams' counts in (now − window, now]."""
        self._check_alike(other, "multiply")
        if now is None and self.config.by == "time":
            clocks = [each for each in (self.latest, other.latest) if each is not None]
            now = max(clocks, default=None)
        return self._ask(_inner_product, other._keyed.state(), window, now)  # type: ignore[no-any-return]

    @question
    def self_join(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The sum of the squares of all items' counts in (now − window, now]."""
        return _inner_product(view, view.state, window, now)

    @question_of_a_key
    def counters(
        view: View, window: Duration | None = None, now: Time | None = None
    ) -> NDArray[np.float64]:
        """What each cell counts in (now − window, now]: an array of ``depth`` × ``width``."""
        counts = counts_of(view, window, now)
        (middle,) = counts.middle[counts.places(_all_cells(view.algorithm.grid))]
        return np.asarray(middle)


def _inner_product(view: View, other: State, window: Duration | None, now: Time | None) -> Estimate:
    """Of the streams of each key with those of the same key in the other state."""
    algorithm = view.algorithm
    grid, cell_failure = algorithm.grid, algorithm.cells.product_failure
    views = view, View(algorithm, other)
    counts = [counts_of(each, window, now) for each in views]
    places = [each.places(_all_cells(grid)) for each in counts]  # key, row, cell
    (my_low, my_high), (their_low, their_high) = (
        each.bounds(where, cell_failure) for each, where in zip(counts, places, strict=True)
    )
    low, high = (
        _products(a, b).sum(axis=2).min(axis=1)
        for a, b in ((my_low, their_low), (my_high, their_high))
    )
    mine, theirs = (each.middle[where] for each, where in zip(counts, places, strict=True))
    middle = (mine * theirs).sum(axis=2).min(axis=1)
    most = _outward(_products(*(each.total(cell_failure)[2] for each in counts)))
    upper = np.minimum(_outward(high), most)
    lower = np.minimum(without_others(grid, low, most), upper)
    counted = (view.state.tally.totals > 0) & (other.tally.totals > 0)
    is_certain = ~counted | (counts[0].is_certain & (upper == 0))
    confidence = np.where(is_certain, 1.0, 1 - algorithm.failure)
    return Estimate(np.clip(middle, lower, upper), lower, upper, confidence)


def _all_cells(grid: Grid) -> Int64Array:
    return np.arange(grid.size).reshape(grid.rows, -1)


def _outward(x: FloatArray) -> FloatArray:
    """An upper bound that went through floating point: whole numbers are exact up to 2⁵³."""
    return np.where(x < 2.0**53, x, x * (1 + ROUNDING))


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """Nothing times what may be anything is nothing."""
    nothing = (a == 0) | (b == 0)
    return np.where(nothing, 0.0, a) * np.where(nothing, 0.0, b)
