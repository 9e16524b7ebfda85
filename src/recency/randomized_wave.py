"""Randomized wave (Gibbons & Tirthapura 2004, §4–5)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import BoolArray, Int64Array, UInt64Array
from recency.core.hashing import check_one, hash_items, is_one
from recency.core.level_sample import NO_LEVEL, Columns, levels_of_items, surely_repeated
from recency.core.sample_states import (
    ColumnCodec,
    IdentityCodec,
    ItemCodec,
    SampleStates,
    identities,
)
from recency.core.sizing import capacity_for_count, kept_relative_error
from recency.estimate import Estimate
from recency.sample_sketch import SampleSketch, at_least, matching
from recency.timeunit import UNITS, to_duration, to_tick, to_ticks
from recency.windowed import Duration, Time


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


class RandomizedWave(SampleSketch):
    """Number of different items in any recent window: any order, any duplicates, any merging.

    **Guarantee.** Within ``relative_error`` of the truth with probability ``confidence``, for any
    one window up to the largest; exact while it holds at most ``capacity`` items. The interval
    covers the truth with probability ``confidence``.

    **Cost.** ``capacity`` is 1 677 at the defaults; with 10⁷ different items about 23 000 are kept,
    9.4 bytes each.

    **Merging** is exact: the state is a function of the set of (item, most recent time).

    **Time.** Late events count where they belong. Windows are half-open, (now − window, now].

    Parameters
    ----------
    window
        The largest window that may be asked, in ticks or as a duration (with ``unit``); None for
        no bound.
    relative_error, confidence
        In (0, 1).
    keep_items
        Keep the sampled items themselves, for ``query(where=…)`` and ``sample``. They are raw data:
        whoever has the sketch can read them.
    capacity
        Items per level; None for what ``relative_error`` and ``confidence`` need.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

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
    _distinct = True
    _least_flush = 1 << 19

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        keep_items: bool = False,
        *,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        if not isinstance(keep_items, bool):
            raise TypeError(f"keep_items must be a bool, got {type(keep_items).__name__}")
        self.config = RandomizedWaveConfig(
            None if window is None else to_duration(window, unit),
            error,
            sure,
            keep_items,
            capacity_for_count(error, 1 - sure)
            if capacity is None
            else validate.integer(capacity, "capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        self._start()

    def _start(self) -> None:
        # hash, time, and where the item waits
        self._pending_columns = 3 if self.config.keep_items else 2
        super()._start()
        self._items: list[Any] = []

    def _codecs(self) -> Sequence[ColumnCodec]:
        return [IdentityCodec(), ItemCodec()] if self.config.keep_items else [IdentityCodec()]

    # --- update ---

    def update(self, item: Any, *, at: Time) -> None:
        """See ``item`` (int, str or bytes) at a time; any order, repeats welcome."""
        check_one(item, "item")
        if isinstance(item, np.generic):
            item = item.item()
        tick = to_tick(at, self.config.unit)
        self._add_row((item, tick), tick)

    def update_many(self, item: Any, *, at: Any) -> None:
        """:meth:`update` for arrays, lists or columns; a scalar goes with all of the other."""
        hashes, ticks = self._checked(item, at)
        size = validate.common_length(
            {"item": hashes.reshape(()) if is_one(item) else hashes, "at": ticks}
        )
        if not size:
            return
        self._buffer_rows()
        self._buffer(hashes, item, ticks, size)

    def _checked(self, item: Any, at: Any) -> tuple[UInt64Array, Int64Array]:
        return hash_items(item, self.config.seed), to_ticks(at, self.config.unit)

    def _rows_for_column(
        self, numbers: Int64Array, arguments: Mapping[str, Any], extra: Sequence[Int64Array]
    ) -> tuple[Int64Array, list[NDArray[Any]], BoolArray | None]:
        hashes, ticks = self._checked(**arguments)
        columns: list[NDArray[Any]] = [np.broadcast_to(hashes.view(np.int64), numbers.size)]
        if self.config.keep_items:
            items = np.empty(numbers.size, dtype=object)
            items[:] = as_list(arguments["item"], numbers.size)
            columns.append(items)
        return np.broadcast_to(ticks, numbers.size), columns, None

    def _buffer(
        self, hashes: Any, items: Any, ticks: Int64Array, size: int, *more: Int64Array
    ) -> None:
        columns = [hashes.view(np.int64), ticks]
        if self.config.keep_items:
            if self._pending.size and self._pending.size + size > self._room():
                self._flush()  # before the new items join those that wait
            columns.append(np.arange(len(self._items), len(self._items) + size))
            self._items += as_list(items, size)
        self._add([*columns, *more], int(ticks.max()), size)
        if not self._pending.size:
            self._items = []

    def _buffer_rows(self) -> None:
        if self._rows:
            items, ticks = zip(*self._rows, strict=True)
            self._rows = []
            hashes = hash_items(list(items), self.config.seed)
            self._buffer(hashes, list(items), np.array(ticks), len(items))

    def _flush(self) -> None:
        super()._flush()
        self._items = []

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        return levels_of_items(columns[0].view(np.uint64))

    def _further(self, columns: Sequence[Int64Array], levels: Int64Array) -> Columns:
        identity = self._identities(columns[0].view(np.uint64), levels)
        if not self.config.keep_items:
            return (identity,)
        if columns[2].dtype == object:
            return identity, columns[2]
        items = np.empty(levels.size, dtype=object)
        items[:] = [self._items[i] for i in columns[2]]
        return identity, items

    @classmethod
    def _identities(cls, hashes: UInt64Array, levels: Int64Array) -> UInt64Array:
        return identities(hashes, levels)

    def _not_needed(self, groups: Int64Array, times: Int64Array, further: Columns) -> BoolArray:
        return surely_repeated(further[0], groups, times)

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        if prototype.config.keep_items:
            identity, items = states.sample.columns
            hashes = hash_items(list(items), prototype.config.seed)
            levels = states.sample.levels
            if (cls._identities(hashes, levels) != identity).any() or not (
                cls._fits(hashes, levels)
            ).all():
                return "an item that does not belong to its hash"
        return None

    @classmethod
    def _fits(cls, hashes: UInt64Array, levels: Int64Array) -> BoolArray:
        """Whether items are at levels where they may be."""
        fits: BoolArray = levels_of_items(hashes) == levels
        return fits

    # --- questions ---

    @property
    def guarantee(self) -> float:
        """The relative error kept with probability ``confidence``."""
        config = self.config
        return kept_relative_error(config.capacity, config.relative_error, 1 - config.confidence)

    def query(
        self,
        window: Duration | None = None,
        now: Time | None = None,
        where: Callable[[NDArray[Any]], Any] | None = None,
    ) -> Estimate:
        """The number of different items in (now − window, now].

        ``where`` (needs ``keep_items``) gets an array of items and returns which of them to count.
        The interval reflects how many of the sampled items match, so it is wider, relatively, for a
        rare property (Gibbons & Tirthapura 2004, §5).
        """
        if where is not None and not self.config.keep_items:
            raise ValueError("where needs a sketch that keeps items: keep_items=True")
        since = self._since(window, now)
        if self._latest is None:
            return Estimate(0.0, 0.0, 0.0)
        level, present, sampled = self._window_sample(since)
        if where is not None:
            items = self._sample.columns[1][present]
            if items.size and all(type(item) is int for item in items):
                items = items.astype(np.int64)
            matches = matching(where, items)
            present = present[matches]
            sampled = sampled[matches]
        n = int(sampled.sum())
        if level == NO_LEVEL:
            return Estimate(float(n), float(n), float(n))
        return at_least(self._scaled(n, level), float(present.size))

    def sample(self, window: Duration | None = None, now: Time | None = None) -> list[Any]:
        """A uniform sample without replacement of the different items in the window.

        All of them while they are few, otherwise between one and two times ``capacity``, roughly.
        """
        if not self.config.keep_items:
            raise ValueError("sample needs a sketch that keeps items: keep_items=True")
        since = self._since(window, now)
        if self._latest is None:
            return []
        self._settle()
        self._sample = self._sample.in_order()
        _, present, sampled = self._window_sample(since)
        return list(self._sample.columns[1][present[sampled]])

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        if not self.is_empty:
            self._settle()
        return self._description(f"{self._sample.times.size} items kept, latest={self._latest}")


def as_list(items: Any, size: int) -> list[Any]:
    """Items as plain Python objects; one that goes with all, so many times."""
    if is_one(items):
        return [items.item() if isinstance(items, np.generic) else items] * size
    plain = items if isinstance(items, Sequence) else np.asarray(items).tolist()
    return [item.item() if isinstance(item, np.generic) else item for item in plain]
