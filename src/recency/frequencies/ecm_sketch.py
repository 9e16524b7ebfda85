"""ECM-sketch: frequencies over sliding windows (Papapetrou, Garofalakis & Deligiannakis 2012)."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import State, View
from recency.core import geometry, validate
from recency.core.arrays import FloatArray, Int64Array
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
from recency.timeunit import Duration, Time, largest_window

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
    """Count of any item in any recent window, and inner products of two streams.

    This is a count-min sketch whose counters are sliding-window counters. **Errors are relative to
    the total of the window**, not to the item's own count: with ``relative_error=0.05`` and a
    million events in the window, the error of any count is up to 50,000. This is small for frequent
    items, and larger than the counts of rare ones.

    **Guarantee.** With probability ``confidence``, the error of a count is at most
    ``relative_error`` · total (Theorems 1 and 3), and that of an inner product at most
    ``guarantee`` · the product of both totals (Theorem 2). Upper bounds are certain with
    ``counter="eh"`` and ``"dw"``.

    **Cost.** At the defaults there are 3 rows of 111 cells. Each cell is a counter with error
    0.025. The size grows with 1/ε² and with the logarithm of the counts.

    **Merging** is bounded with ``"eh"`` and ``"dw"`` (Theorem 4, in all cells at once). It is exact
    with ``"rw"``, which takes at least ten times the memory.

    **Time.** With ``"eh"`` and ``"dw"`` an event must not be older than ``latest``; the rows of one
    ``update_many`` may be in any order. With ``"rw"`` events may arrive in any order.

    Parameters
    ----------
    window
        Longest window that can be queried, in ticks or, with ``unit``, a duration such as
        ``"90 minutes"``. None: no limit.
    relative_error, confidence
        Error bound ε, and the least probability with which it holds. Both in (0, 1).
    counter
        What each cell is: ``"eh"``, an exponential histogram; ``"dw"``, a deterministic wave;
        ``"rw"``, a random sample of its events (randomized wave).
    optimize_for
        The question to which ``relative_error`` applies: ``"point"``, the count of an item, or
        ``"inner_product"``.
    by
        ``"time"``, or ``"count"``: a window of w covers the last w updates.
    late
        What to do with an event older than ``latest``, with ``"eh"`` and ``"dw"``: ``"raise"`` an
        ``OutOfOrderError``, or ``"clamp"``: count it at ``latest``, and in ``late_count``.
    stream
        Stream number, from which events without an ``id`` draw their coins (``"rw"``). Sketches
        that are built separately and merged later need different numbers.
    width, depth, cell_error, cell_capacity
        Cells per row, rows, error bound of a cell, and (``"rw"``) events per level of a cell. None:
        chosen such that the sketch takes the least memory.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

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
        ticks = largest_window(window, unit)
        validate.one_of(optimize_for, "optimize_for", ("point", "inner_product"))
        check_counter(counter, late, cell_capacity)
        error = validate.fraction(relative_error, "relative_error")
        confidence = validate.confidence(confidence)
        product = optimize_for == "inner_product"
        if None in (width, depth, cell_error) or (counter == "rw" and cell_capacity is None):
            best = geometry.choose(error, confidence, counter == "rw", product)
            width = best.width if width is None else width
            depth = best.depth if depth is None else depth
            cell_error = best.cell_error if cell_error is None else cell_error
            cell_capacity = best.capacity if cell_capacity is None else cell_capacity
        self.config = EcmConfig(
            ticks,
            error,
            confidence,
            counter,
            optimize_for,
            by,
            late,
            validate.integer(width, "width", 1, 1 << 24),
            validate.integer(depth, "depth", 1, 64),
            validate.fraction(cell_error, "cell_error"),
            validate.capacity(cell_capacity, "cell_capacity"),
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
        """Return Σ over all items of (count here) · (count in ``other``), in (now − window, now].

        Both streams are counted in the same window. ``now=None`` is the later ``latest`` of the
        two.

        Raises
        ------
        IncompatibleSketchError
            If class or configuration differ.
        ValueError
            If ``window`` exceeds the constructor's, or ``now`` is before the ``latest`` of either.
        """
        self._check_alike(other, "multiply")
        if now is None and self.config.by == "time":
            clocks = [each for each in (self.latest, other.latest) if each is not None]
            now = max(clocks, default=None)
        return self._ask(_inner_product, other._keyed.state(), window, now)  # type: ignore[no-any-return]

    @question
    def self_join(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """Return Σ count² over all items, for the counts in (now − window, now]."""
        return _inner_product(view, view.state, window, now)

    @question_of_a_key
    def counters(
        view: View, window: Duration | None = None, now: Time | None = None
    ) -> NDArray[np.float64]:
        """Return the estimated count of each cell in (now − window, now]: ``depth`` × ``width``."""
        counts = counts_of(view, window, now)
        (middle,) = counts.middle[counts.places(_all_cells(view.algorithm.grid))]
        return np.asarray(middle)


def _inner_product(view: View, other: State, window: Duration | None, now: Time | None) -> Estimate:
    """Return the inner products of each key's stream with that of the same key in ``other``."""
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
    """Increase upper bounds by the rounding error of floats; those below 2⁵³ have none."""
    return np.where(x < 2.0**53, x, x * (1 + ROUNDING))


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a · b, where 0 · ∞ is 0."""
    nothing = (a == 0) | (b == 0)
    return np.where(nothing, 0.0, a) * np.where(nothing, 0.0, b)
