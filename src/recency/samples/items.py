"""Items: rows whose coin is the hash of the item; only the latest row of an item counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import NEVER, Admitted, Columns, PerKey, described
from recency.core import by_key, validate
from recency.core.arrays import Int64Array
from recency.core.hashing import check_one, hash_items, is_one
from recency.core.level_sample import LevelSample, levels_of_items, surely_repeated, take
from recency.keyed import only_key
from recency.samples.algorithm import Placed
from recency.samples.records import (
    ColumnCodec,
    IdentityCodec,
    ItemCodec,
    SampleStates,
    identities,
)
from recency.timeunit import to_tick, to_ticks


class Items:
    """Intake of rows (hash, time, and the item if items are kept). The tally has only the time."""

    numbers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    draws_coins = False

    def __init__(self, seed: int, keep_items: bool, unit: str | None) -> None:
        self.seed, self.keep_items, self.unit = seed, keep_items, unit

    def empty(self, size: int, first_stream: int) -> PerKey:
        """Return empty tallies; coins are hashes of items, so the stream number has no effect."""
        return PerKey.empty(size)

    def tally(self, latest: Int64Array, numbers: tuple[Int64Array, ...], flags: Any) -> PerKey:
        """Return the tally of keys that were read: their latest times."""
        return PerKey(latest)

    def check(self, size: int | None, item: Any, at: Any) -> Columns:
        """Return columns of hashes, times and, if kept, items."""
        hashes, ticks = hash_items(item, self.seed), to_ticks(at, self.unit)
        if size is None:
            one = hashes.reshape(()) if is_one(item) else hashes
            size = validate.common_length({"item": one, "at": ticks})
        columns = np.broadcast_to(hashes, size), np.broadcast_to(ticks, size)
        return (*columns, _objects(as_list(item, size))) if self.keep_items else columns

    def check_row(self, item: Any, at: Any) -> Any:
        """Return an item and its time; items are hashed later, since batches are faster."""
        check_one(item, "item")
        return item.item() if isinstance(item, np.generic) else item, to_tick(at, self.unit)

    def stack(self, tally: PerKey, rows: Sequence[Any]) -> Admitted:
        """Hash single rows, and admit them."""
        items, ticks = zip(*rows, strict=True)
        columns: Columns = hash_items(list(items), self.seed), np.array(ticks, dtype=np.int64)
        if self.keep_items:
            columns = *columns, _objects(items)
        return self.admit(tally, only_key(len(rows)), columns)

    def admit(self, tally: PerKey, keys: Int64Array, columns: Columns) -> Admitted:
        """Admit all rows."""
        return Admitted(PerKey(by_key.raised(tally.latest, keys, columns[1])), keys, columns)

    def merge(self, tally: PerKey, into: Int64Array, size: int) -> PerKey:
        """Return the later of the latest times."""
        return PerKey(by_key.raised(np.full(size, NEVER), into, tally.latest))

    def finalize(self, tally: PerKey, prototype: PerKey) -> PerKey:
        """Return the tally unchanged."""
        return tally

    def check_merge(
        self, tally: PerKey, into: Int64Array, owners: Int64Array, times: Int64Array
    ) -> None:
        """Accept all parts: equal items shall have equal coins."""

    def what_was_seen(self, tally: PerKey, kept: Int64Array) -> list[str]:
        """Return a text with the number of kept items and the latest time."""
        return described("{} items kept, latest={}", kept, tally.latest)

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """Return None: the tally has no counts that could be wrong."""
        return None


class ItemElements:
    """Elements with the identity of an item, and the item itself if items are kept."""

    distinct = True
    level_range = (0, 63)

    def __init__(self, seed: int, keep_items: bool) -> None:
        self._seed, self._keep_items = seed, keep_items
        items: list[ColumnCodec] = [ItemCodec()] if keep_items else []
        self.codecs: Sequence[ColumnCodec] = [IdentityCodec(), *items]

    def draws(self, rows: Columns) -> Sequence[Columns]:
        """Return the rows, once: there are no copies."""
        return (rows,)

    def levels(self, rows: Columns) -> Int64Array:
        """Return the levels that follow from the hashes."""
        return levels_of_items(rows[0])

    def payload(self, rows: Columns, levels: Int64Array) -> Columns:
        """Return the identity and, if kept, the item."""
        return identities(rows[0], levels), *rows[2:]

    def thinned(self, placed: Placed) -> Placed:
        """Drop rows of items that occur again, later, in the same batch."""
        groups, times, payload = placed
        repeated = surely_repeated(payload[0], groups, times)
        return take(np.flatnonzero(~repeated), *placed) if repeated.any() else placed

    def flaw(self, sample: LevelSample) -> str | None:
        """Return an error if an item does not have the stored hash."""
        if not self._keep_items:
            return None
        identity, items = sample.columns
        hashes, levels = hash_items(list(items), self._seed), sample.levels
        if (identities(hashes, levels) != identity).any() or (
            levels_of_items(hashes) != levels
        ).any():
            return "an item that does not belong to its hash"
        return None


def _objects(items: Sequence[Any]) -> NDArray[Any]:
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


def as_list(items: Any, size: int) -> list[Any]:
    """Return items as a list of Python objects; a single item is repeated ``size`` times."""
    if is_one(items):
        return [items.item() if isinstance(items, np.generic) else items] * size
    plain = items if isinstance(items, Sequence) else np.asarray(items).tolist()
    return [item.item() if isinstance(item, np.generic) else item for item in plain]
