"""Dyadic ECM-sketch: heavy hitters, ranges, quantiles (Papapetrou et al. 2012, §6.1)."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from recency.algorithm import View
from recency.core import geometry, validate
from recency.core.rank_log import kept_ranks
from recency.core.sizing import capacity_for_count
from recency.estimate import Estimate
from recency.frequencies.algorithm import CellAlgorithm
from recency.frequencies.cell_counts import Counts
from recency.frequencies.cell_sketch import (
    CellSketch,
    check_counter,
    counts_of,
    points,
    settings_of,
    since_of,
)
from recency.frequencies.grid import DyadicGrid
from recency.frequencies.names import IDENTITY_BITS, NameSample, capacity_for_names
from recency.frequencies.scales import Scales
from recency.questions import question_of_a_key
from recency.timeunit import Duration, Time, largest_window

_MOST_CELLS = 1 << 21
_PER_ENTRY, _PER_CELL, _PER_NAME = 24, 32, 150  # bytes
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
    """Heavy hitters of any recent window, counts of ranges of integers, and quantiles.

    The sketch is one ECM-sketch per scale: that of scale i counts the events in each range
    [k·2ⁱ, (k+1)·2ⁱ). Heavy hitters are found by starting from the largest ranges and splitting
    every range that is frequent enough into halves. **Errors are relative to the total of the
    window.**

    **Guarantee.** Let ε be ``relative_error`` and T the total of the window.
    ``heavy_hitters(φ)`` returns every item that occurred at least (φ + ε)·T times; with
    ``counter="eh"`` and ``"dw"`` this is certain. With probability ``confidence`` it returns no
    item that occurred less than φ·T times (Theorem 5), provided φ ≤ (1 − 3ε)/4. The error
    bound for the count of one item is ``guarantee`` · T, and for a range at most
    2 · ``universe_bits`` · ``guarantee`` · T. Each answer has its own interval.

    **Cost.** At the defaults there are 88 rows of 56 cells; :meth:`forecast` gives the memory. If a
    scale has no more ranges than a row has cells, each range has its own cell. Of these scales only
    the finest one is stored, in one row.

    **Merging** is bounded with ``"eh"`` and ``"dw"`` (Theorem 4). It is exact with ``"rw"``, which
    takes many times the memory.

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
        ``"rw"``, a random sample of its events.
    universe_bits
        Items are integers from 0 to 2^universe_bits − 1. With ``names``, the number of bits of
        their hashes.
    min_threshold
        Smallest share φ that :meth:`heavy_hitters` accepts.
    names
        If True, items are strings, bytes or any integers, and are hashed to integers. A sample of
        items is kept as well, from which heavy hitters get their names; one that is not in the
        sample is returned as the integer of its hash. Ranges and quantiles are not available.
    by
        ``"time"``, or ``"count"``: a window of w covers the last w updates.
    late
        What to do with an event older than ``latest``, with ``"eh"`` and ``"dw"``: ``"raise"`` an
        ``OutOfOrderError``, or ``"clamp"``: count it at ``latest``, and in ``late_count``.
    stream
        Stream number, from which events without an ``id`` draw their coins (``"rw"``, ``names``).
        Sketches that are built separately and merged later need different numbers.
    width, depth, range_depth, cell_error, cell_capacity, name_capacity
        Cells per row, rows for single items, rows for each other scale, error bound of a cell,
        events per level of a cell (``"rw"``), and names per level (``names``). None: computed from
        ``relative_error`` and ``confidence``.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

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
        *,
        counter: Literal["eh", "dw", "rw"] = "eh",
        universe_bits: int = 32,
        min_threshold: float = 0.01,
        names: bool = False,
        by: Literal["time", "count"] = "time",
        late: Literal["raise", "clamp"] = "raise",
        stream: int = 0,
        width: int | None = None,
        depth: int | None = None,
        range_depth: int | None = None,
        cell_error: float | None = None,
        cell_capacity: int | None = None,
        name_capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        ticks = largest_window(window, unit)
        check_counter(counter, late, cell_capacity)
        if not isinstance(names, bool):
            raise TypeError(f"names must be a bool, got {type(names).__name__}")
        if name_capacity is not None and not names:
            raise ValueError("name_capacity is for names=True alone")
        error = validate.fraction(relative_error, "relative_error")
        confidence = validate.confidence(confidence)
        bits = validate.integer(universe_bits, "universe_bits", 1, IDENTITY_BITS if names else 63)
        least = validate.fraction(min_threshold, "min_threshold")
        if least < _LEAST_THRESHOLD:
            raise ValueError(f"min_threshold must be at least {_LEAST_THRESHOLD:g}, got {least:g}")
        best = geometry.choose(error, confidence, counter == "rw", False)
        range_depth = best.depth if range_depth is None else range_depth
        range_depth = validate.integer(range_depth, "range_depth", 1, 64)
        if depth is None:
            depth = min(_rows_for_items(least, 1 - confidence, range_depth), 64)
        depth = validate.integer(depth, "depth", range_depth, 64)
        if counter == "rw" and cell_capacity is None:
            left = geometry.left_to_counters(1 - confidence, depth)
            counters = geometry.counters_of_an_answer(0, depth, False)
            cell_capacity = capacity_for_count(best.cell_error, left / counters)
        if names and name_capacity is None:
            name_capacity = capacity_for_names(least, 1 - confidence)
        self.config = DyadicConfig(
            ticks,
            error,
            confidence,
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
            validate.capacity(cell_capacity, "cell_capacity"),
            validate.capacity(name_capacity, "name_capacity"),
            validate.integer(seed, "seed"),
            unit,
        )
        super().__init__(DyadicAlgorithm(self.config), stream)

    # --- questions ---

    @question_of_a_key
    def heavy_hitters(
        view: View, threshold: float, window: Duration | None = None, now: Time | None = None
    ) -> list[tuple[Any, Estimate]]:
        """Return the items that occurred often in (now − window, now], the most frequent first.

        Parameters
        ----------
        threshold
            A float in (0, 1) is a share φ of the events in the window; an integer ≥ 1 is a count.
        window, now
            See :class:`~recency.Sketch`.

        Returns
        -------
        list[tuple[item, Estimate]]
            Items and their counts. All items with a share of at least φ + ``guarantee`` are in the
            list. With probability ``confidence`` no item with a share below φ is, provided
            φ ≤ (1 − 3 · ``guarantee``)/4. With ``names``, an item whose name was not sampled is
            given as the integer of its hash.

        Raises
        ------
        ValueError
            If ``threshold`` is below ``min_threshold``.
        """
        algorithm = view.algorithm
        grid, least = algorithm.grid, algorithm.min_threshold
        share, count = _threshold(threshold, least)
        since = since_of(view, window, now)
        scales = _scales(view, algorithm.counts(view.state, since))
        total = scales.total[1]
        if count and count < least * total:
            raise ValueError(
                f"threshold must be at least {least:g} of all {total:g} (min_threshold), "
                f"got {count}"
            )
        # The upper bound of a heavy hitter is at least ``floor``; for its estimate see the test
        # below (docs/dyadic_ecm.md).
        cell_error = float(algorithm.cell_error(view.state)[0])
        floor = share * total + count + grid.error(cell_error) * total
        if not floor or not view.state.tally.totals[0]:
            return []
        nodes = np.arange(grid.ranges(grid.exact_scale), dtype=np.uint64)
        for scale in range(grid.exact_scale, -1, -1):
            estimates, _, most = (each.min(axis=0) for each in scales.found(scale, nodes))
            nodes = nodes[(most >= floor) & (estimates >= (1 - cell_error) * floor)]
            if scale:
                nodes = np.repeat(nodes << np.uint64(1), 2)
                nodes[1::2] += np.uint64(1)
        answer = points(view, scales.counts, grid.cells_of_nodes(0, nodes))
        value, lower, upper = (x[0].tolist() for x in (answer.value, answer.lower, answer.upper))
        confidence = float(answer.confidence[0, 0])
        names: dict[int, Any] = {}
        for part, body in zip(algorithm.names, view.state.body.each[1:], strict=True):
            names = part.names(body, grid.universe_bits, int(since[0]))
        return [
            (
                names.get(int(nodes[i]), int(nodes[i])),
                Estimate(value[i], lower[i], upper[i], confidence),
            )
            for i in np.lexsort((nodes, -answer.value[0])).tolist()
        ]

    @question_of_a_key
    def range_count(
        view: View, lo: int, hi: int, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the number of events in (now − window, now] with lo ≤ item ≤ hi.

        The count is a sum over at most two ranges of each scale, and each range adds to the error.

        Raises
        ------
        ValueError
            If lo > hi, if either is not in the universe, or if the sketch was built with ``names``.
        """
        grid = _grid_of_integers(view, "range_count")
        low = validate.integer(lo, "lo", 0, grid.largest)
        high = validate.integer(hi, "hi", 0, grid.largest)
        if low > high:
            raise ValueError(f"lo must not be above hi, got {low} and {high}")
        counts = counts_of(view, window, now)
        if not view.state.tally.totals[0]:
            return Estimate(0.0, 0.0, 0.0)
        return _scales(view, counts).range_count(low, high + 1)

    @question_of_a_key
    def quantile(
        view: View, q: float = 0.5, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the smallest item x such that at least a share ``q`` of the events has item ≤ x.

        Only events in (now − window, now] count. With ``counter="eh"`` and ``"dw"`` the lower end
        of the interval is certain.

        Raises
        ------
        NoAnswerError
            If the window has no events.
        ValueError
            If the sketch was built with ``names``.
        """
        _grid_of_integers(view, "quantile")
        share = validate.number(q, "q", 0, 1)
        return _scales(view, counts_of(view, window, now)).quantile(share)

    def forecast(self, events: int, seen: int | None = None) -> int:
        """Return an upper bound on the bytes of memory, for ``counter="eh"`` and ``"dw"``.

        :meth:`to_bytes` takes about an eighth of that. The bound is reached if events are spread
        evenly over the cells.

        Parameters
        ----------
        events
            Number of events of weight 1 in the largest window.
        seen
            Number of events in the whole stream; None: 1000 · ``events``.
        """
        config = self.config
        if config.counter == "rw":
            raise ValueError('forecast is for counter="eh" and "dw"')
        most = validate.integer(events, "events", 0)
        ever = 1000 * most if seen is None else validate.integer(seen, "seen", most)
        grid, rule = self._algorithm.grid, self._algorithm.cells.rule
        tightness = int(self._keyed.state().body.cells.tightness[0])
        kept = int(kept_ranks(rule, np.array([-(-most // config.width)]), tightness)[0])
        expired = (ever // config.width).bit_length()  # at most one of each level
        size = grid.size * (_PER_ENTRY * (kept + expired) + _PER_CELL)
        if config.name_capacity is not None:
            levels = 1 + (most // config.name_capacity).bit_length()
            size += _PER_NAME * min(levels * config.name_capacity, most)
        return int(size)


class DyadicAlgorithm(CellAlgorithm):
    """Algorithm of a dyadic ECM-sketch, with the error bounds of its questions."""

    grid: DyadicGrid

    def __init__(self, config: DyadicConfig) -> None:
        grid = DyadicGrid(
            config.width,
            config.depth,
            config.range_depth,
            config.universe_bits,
            config.names,
            config.seed,
        )
        if grid.size > _MOST_CELLS:
            raise ValueError(
                f"width, depth and range_depth must make at most {_MOST_CELLS} cells, "
                f"got {grid.size}"
            )
        names = None
        if config.name_capacity is not None:
            names = NameSample(config.window, config.name_capacity, config.seed)
        super().__init__(grid, *settings_of(config, grid), names)
        self.confidence, self.min_threshold = config.confidence, config.min_threshold


def _scales(view: View, counts: Counts) -> Scales:
    algorithm: DyadicAlgorithm = view.algorithm
    return Scales(algorithm.grid, counts, algorithm.confidence)


def _threshold(threshold: Any, least: float) -> tuple[float, int]:
    """Return (share, count) of a threshold; the one that was not given is 0."""
    share, is_share = validate.share_or_count(threshold, "threshold")
    if not is_share:
        return 0.0, int(share)
    if share < least:
        raise ValueError(f"threshold must be at least {least:g} (min_threshold), got {share:g}")
    return share, 0


def _grid_of_integers(view: View, question: str) -> DyadicGrid:
    """Return the grid; refuse the question if items are hashed names."""
    if view.algorithm.names:
        raise ValueError(f"{question} needs integers: hashes of names have no order")
    grid: DyadicGrid = view.algorithm.grid
    return grid


def _rows_for_items(least_share: float, failure_probability: float, range_depth: int) -> int:
    """Return the number d of rows for single items that keeps rare items out of the heavy hitters.

    At each scale at most 1/φ ranges are heavy. A range that is not heavy passes the r rows of its
    scale with probability e⁻ʳ. So about (2/φ) / (1 − 2e⁻ʳ) items are tested at scale 0, and each
    rare one passes d rows with probability e⁻ᵈ. Rows of other scales cannot add a rare item.
    """
    looked_at = 2 / least_share / max(1 - 2 * math.exp(-range_depth), 0.25)
    return max(math.ceil(math.log(looked_at / failure_probability)), range_depth)
