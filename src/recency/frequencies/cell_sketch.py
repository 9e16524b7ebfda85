"""Base class of the ECM-sketches: updates, and questions about items."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from recency.algorithm import View
from recency.core import geometry, validate
from recency.core.arrays import FloatArray, Int64Array
from recency.core.rank_log import EXPONENTIAL, WAVE, Rule
from recency.counters.arrival import Arrival
from recency.estimate import Estimate
from recency.frequencies.cell_counts import Counts
from recency.frequencies.grid import ROUNDING, Grid
from recency.frequencies.log_cells import LogCells
from recency.frequencies.sample_cells import SampleCells
from recency.questions import question, question_of_many
from recency.sketch import Sketch
from recency.timeunit import Duration, Time

RULES: dict[str, Rule] = {"eh": EXPONENTIAL, "dw": WAVE}


def check_counter(counter: Any, late: Any, cell_capacity: int | None) -> None:
    """Check settings of the constructor against each other."""
    validate.one_of(counter, "counter", ("eh", "dw", "rw"))
    if counter == "rw" and late != "raise":
        raise ValueError('counter="rw" takes events in any order: leave out late')
    if counter != "rw" and cell_capacity is not None:
        raise ValueError('cell_capacity is for counter="rw" alone')


class Settings(NamedTuple):
    """Arguments of the algorithm, besides its grid."""

    cells: LogCells | SampleCells
    arrival: Arrival
    window: int | None
    failure: float
    seed: int


def settings_of(config: Any, grid: Grid) -> Settings:
    """Return what a configuration with counter, cell_error, cell_capacity, by, late, … means."""
    failure = math.exp(-grid.point_rows)
    cells: LogCells | SampleCells
    if config.cell_capacity is None:
        arrival = Arrival(config.by, config.late, config.unit)
        cells = LogCells(RULES[config.counter], config.cell_error, grid, config.window, arrival)
        return Settings(cells, arrival, config.window, failure, config.seed)
    arrival = Arrival(config.by, config.late, config.unit, needs_order=False)
    left = geometry.left_to_counters(1 - config.confidence, grid.point_rows)
    failure += left
    # For an inner product, all cells of both sketches must be within their bounds.
    of_product = 2 * geometry.counters_of_an_answer(grid.width, grid.point_rows, True)
    cells = SampleCells(
        config.cell_capacity,
        config.cell_error,
        left / grid.counters_of_an_answer,
        (failure - math.exp(-grid.point_rows)) / of_product,
        grid,
        config.window,
        arrival,
        config.seed,
    )
    return Settings(cells, arrival, config.window, failure, config.seed)


class CellSketch(Sketch):
    """Sketch of rows of cells, each with a counter; base class of the ECM-sketches.

    The configuration has ``window``, ``width``, ``cell_error``, ``cell_capacity``, ``counter``, …
    """

    def update(self, item: Any, *, at: Time | None = None, weight: int = 1, id: Any = None) -> None:
        """Count ``item`` ``weight`` times at time ``at``.

        Parameters
        ----------
        item
            An integer, string or bytes.
        at
            Time of the event. Required with ``by="time"``. Not allowed with ``by="count"``, where
            every update takes the next position.
        weight
            An integer ≥ 0.
        id
            Identifies the event: integer, string or bytes. Its coin is then a hash of id, item,
            time and weight. Only allowed where events draw coins: with ``counter="rw"``, or with
            the ``names`` of a :class:`~recency.DyadicEcm`.

        Raises
        ------
        OutOfOrderError
            If ``at`` is before ``latest``, ``late="raise"``, and the counters need time order.
        """
        self._keyed.add_row(item, at, weight, id)

    def update_many(self, item: Any, *, at: Any = None, weight: Any = 1, id: Any = None) -> None:
        """Add one event per row; scalars are broadcast to the length of the arrays.

        Rows may be in any time order. Only a row older than ``latest`` before the call is late.
        """
        self._keyed.update_many(None, {"item": item, "at": at, "weight": weight, "id": id})

    @property
    def late_count(self) -> int:
        """Number of late events that were counted at ``latest`` (``late="clamp"``)."""
        return int(self._keyed.tally.late_count[0])

    # --- questions ---

    @question
    def query(
        view: View, item: Any, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return how often ``item`` occurred in (now − window, now], weights included.

        With ``counter="eh"`` and ``"dw"`` the upper bound is certain; ``confidence`` is that of the
        lower bound.

        Parameters
        ----------
        window, now
            See :class:`~recency.Sketch`. ``now`` is not allowed with ``by="count"``.
        """
        grid: Grid = view.algorithm.grid
        grid.check_item(item)
        counts = counts_of(view, window, now)
        answer = points(view, counts, grid.cells_of_points(grid.hashes([item])))
        value, lower, upper = (x[:, 0] for x in (answer.value, answer.lower, answer.upper))
        confidence = np.where(counts.is_certain & (upper == 0), 1.0, answer.confidence[:, 0])
        return Estimate(value, lower, upper, confidence)

    @question_of_many
    def query_many(
        view: View, items: Any, window: Duration | None = None, now: Time | None = None
    ) -> Estimate:
        """Return the counts of many items: arrays in their order, each with its own confidence."""
        grid: Grid = view.algorithm.grid
        since = since_of(view, window, now)
        cells = grid.cells_of_points(grid.hashes(items, "items"))
        return points(view, view.algorithm.counts(view.state, since), cells)

    @question
    def total(view: View, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """Return the number of events in (now − window, now], weights included."""
        counts, failure = counts_of(view, window, now), view.algorithm.cells.cell_failure
        confidence = np.where(counts.is_total_certain, 1.0, 1 - failure)
        return Estimate(*counts.total(failure), confidence)

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        sampled = ["cell_capacity"] if settings.get("counter") == "rw" else []
        names = ["name_capacity"] if settings.get("names") else []
        return ["width", "depth", "range_depth", "cell_error", *sampled, *names]


def since_of(view: View, window: Duration | None, now: Time | None) -> Int64Array:
    """Return the tick s before the window (s, now] of each key; check ``window`` and ``now``."""
    if now is not None and view.algorithm.arrival.by == "count":
        raise TypeError('now must be left out with by="count": windows end at the last update')
    return view.since(window, now)


def counts_of(view: View, window: Duration | None, now: Time | None) -> Counts:
    """Return the counts of all cells in a window."""
    counts: Counts = view.algorithm.counts(view.state, since_of(view, window, now))
    return counts


def points(view: View, counts: Counts, cells: Int64Array) -> Estimate:
    """Return the counts of items for each key, given the cells of the items in all rows."""
    algorithm = view.algorithm
    failure, places = algorithm.cells.cell_failure, counts.places(cells)
    lower, upper = counts.bounds(places, failure)
    most = counts.total(failure)[2][:, None]
    upper = np.minimum(upper.min(axis=1), most)
    lower = np.minimum(without_others(algorithm.grid, lower.min(axis=1), most), upper)
    value = np.clip(counts.middle[places].min(axis=1), lower, upper)
    confidence = np.where(view.state.tally.totals > 0, 1 - algorithm.failure, 1.0)
    return Estimate(value, lower, upper, confidence[:, None])


def without_others(grid: Grid, lower: FloatArray, most: FloatArray) -> FloatArray:
    """Return a lower bound on the count x of an item, given one on x plus its collisions.

    With probability 1 − e⁻ᵈ, other items add at most (e/w)(most − x) in at least one row.
    """
    if not grid.noise:  # most may be infinite
        return lower
    if grid.noise >= 1:
        return np.zeros_like(lower)
    share = (lower - grid.noise * most) / (1 - grid.noise) * (1 - ROUNDING)
    return np.maximum(share, 0.0)
