"""Randomized wave (Gibbons & Tirthapura 2004, §4–5)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import View
from recency.core import validate
from recency.core.sizing import capacity_for_count, kept_relative_error
from recency.estimate import Estimate
from recency.questions import question, question_of_a_key
from recency.samples.algorithm import SampleAlgorithm, matching
from recency.samples.items import ItemElements, Items
from recency.samples.retention import ByTime
from recency.samples.window_sample import Counts, WindowSample, in_order
from recency.sketch import Sketch
from recency.timeunit import Duration, Time, largest_window


@dataclass(frozen=True)
class RandomizedWaveConfig:
    """Configuration of a randomized wave; ``window`` in ticks."""

    window: int | None
    relative_error: float
    confidence: float
    keep_items: bool
    capacity: int
    seed: int
    unit: str | None


class RandomizedWave(Sketch):
    """Number of distinct items in any recent window; order and duplicates do not matter.

    **Guarantee.** For any one window up to ``window``, the relative error is at most
    ``relative_error`` with probability ``confidence``, and the interval covers the truth with
    probability ``confidence``. The answer is exact while the window holds at most ``capacity``
    items.

    **Cost.** ``capacity`` is 1 677 at the defaults. Of 10⁷ distinct items about 23 000 are kept,
    9.4 bytes each.

    **Merging** is exact: the state depends only on the set of items and the latest time of each.

    **Time.** Events may arrive in any order; each counts at its own time. Windows are half-open,
    (now − window, now].

    Parameters
    ----------
    window
        Longest window that can be queried, in ticks or, with ``unit``, a duration such as
        ``"90 minutes"``. None: no limit.
    relative_error, confidence
        Error bound ε, and the least probability with which it holds. Both in (0, 1).
    keep_items
        Keep the sampled items themselves, not only their hashes, for ``query(where=…)`` and
        ``sample``. Anyone who has the sketch can read them.
    capacity
        Items per level; None: as many as ``relative_error`` and ``confidence`` require.
    seed
        Seed of the hash functions. Sketches with different seeds do not merge.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

    Examples
    --------
    >>> from recency import RandomizedWave
    >>> visitors = RandomizedWave(window="1 day", unit="s")
    >>> visitors.update_many([n % 20_000 for n in range(80_000)], at=range(80_000))
    >>> answer = visitors.query("6 hours")  # exact: 20,000
    >>> answer.lower <= 20_000 <= answer.upper
    True

    References
    ----------
    Gibbons & Tirthapura, *Distributed Streams Algorithms for Sliding Windows*, Theory of Computing
    Systems 2004: Theorem 5 (union counting), Theorem 6 (distinct values), §5 (predicates).
    """

    family = 3
    config: RandomizedWaveConfig
    config_class = RandomizedWaveConfig

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        *,
        keep_items: bool = False,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        ticks = largest_window(window, unit)
        error = validate.fraction(relative_error, "relative_error")
        confidence = validate.confidence(confidence)
        if not isinstance(keep_items, bool):
            raise TypeError(f"keep_items must be a bool, got {type(keep_items).__name__}")
        self.config = RandomizedWaveConfig(
            ticks,
            error,
            confidence,
            keep_items,
            validate.capacity(capacity) or capacity_for_count(error, 1 - confidence),
            validate.integer(seed, "seed"),
            unit,
        )
        config = self.config
        super().__init__(
            SampleAlgorithm(
                config,
                Items(config.seed, keep_items, unit),
                ByTime(ItemElements(config.seed, keep_items), ticks),
                partial(kept_relative_error, config.capacity, error, 1 - confidence),
                flush_rows=1 << 19,
            )
        )

    def update(self, item: Any, *, at: Time) -> None:
        """Add ``item`` (integer, string or bytes) at time ``at``, in any order.

        Only the latest time of each item counts, so repeats do no harm.
        """
        self._keyed.add_row(item, at)

    def update_many(self, item: Any, *, at: Any) -> None:
        """Add one item per row; a scalar is broadcast to the length of the other array."""
        self._keyed.update_many(None, {"item": item, "at": at})

    @question
    def query(
        view: View,
        window: Duration | None = None,
        now: Time | None = None,
        where: Callable[[NDArray[Any]], Any] | None = None,
    ) -> Estimate:
        """Return the number of distinct items in (now − window, now].

        Parameters
        ----------
        window, now
            See :class:`~recency.Sketch`.
        where
            Function of an array of items that returns a boolean array: which of them to count.
            Needs ``keep_items=True``. The fewer of the sampled items match, the wider the interval
            is, relative to the answer (Gibbons & Tirthapura 2004, §5).

        Raises
        ------
        ValueError
            If ``window`` or ``now`` is out of range, or ``where`` is given without ``keep_items``.
        """
        if where is not None:
            _check_items(view, "where")
        rows = WindowSample(view, view.since(window, now))
        matches = None if where is None else _matches(rows, where)
        sampled = rows.is_sampled if matches is None else rows.is_sampled & matches
        seen = rows.count(matches).astype(np.float64)
        return rows.estimate(rows.scaled(rows.count(sampled)), Counts(seen, seen, seen))

    @question_of_a_key
    def sample(view: View, window: Duration | None = None, now: Time | None = None) -> list[Any]:
        """Return a uniform sample, without replacement, of the distinct items in the window.

        It holds all of them while they are few, and otherwise roughly between one and two times
        ``capacity``. Needs ``keep_items=True``, and raises a ``ValueError`` without.
        """
        _check_items(view, "sample")
        rows = WindowSample(in_order(view), view.since(window, now))
        return list(rows.sample.columns[1][rows.present[rows.is_sampled]])


def _check_items(view: View, question: str) -> None:
    if not view.algorithm.intake.keep_items:
        raise ValueError(f"{question} needs a sketch that keeps items: keep_items=True")


def _matches(rows: WindowSample, where: Callable[[NDArray[Any]], Any]) -> NDArray[np.bool_]:
    """Return which elements a predicate chooses; it sees the items of one key at a time."""
    items = rows.sample.columns[1][rows.present]
    matches = np.zeros(items.size, dtype=np.bool_)
    for of_key in rows.by_key():
        mine = items[of_key]
        if mine.size and all(type(item) is int for item in mine):
            mine = mine.astype(np.int64)
        matches[of_key] = matching(where, mine)
    return matches
