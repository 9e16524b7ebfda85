"""Items: rows whose coin is the hash of the item; only the latest row of an item counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import NEVER, Admitted, Columns, PerKey
from recency.core import by_key, validate
from recency.core.arrays import Int64Array
from recency.core.hashing import check_one, hash_items, is_one
from recency.core.level_sample import LevelSample, levels_of_items, surely_repeated, take
from recency.keyed import only_key
from recency.samples.algorithm import Elements, Placed
from recency.samples.intake import Intake
from recency.samples.records import (
    ColumnCodec,
    IdentityCodec,
    ItemCodec,
    identities,
)
from recency.timeunit import to_tick, to_ticks


class Items(Intake):
    """Intake of rows (hash, time, and the item if items are kept). The tally has only the time."""

    elements = "items"

    def __init__(self, seed: int, keep_items: bool, unit: str | None) -> None:
        super().__init__(seed, unit)
        self.keep_items = keep_items

    def check(self, size: int | None, item: Any, at: Any) -> Columns:
        """Return columns of hashes, times and, if kept, items."""
        hashes, ticks = hash_items(item, self.seed), to_ticks(at, self.unit)
        one = hashes.reshape(()) if is_one(item) else hashes
        columns = validate.as_columns(size, item=one, at=ticks)
        return (*columns, as_objects(item, columns[0].size)) if self.keep_items else columns

    def check_row(self, item: Any, at: Any) -> Any:
        """Return an item and its time; items are hashed later, since batches are faster."""
        check_one(item, "item")
        return item.item() if isinstance(item, np.generic) else item, to_tick(at, self.unit)

    def stack(self, tally: PerKey, rows: Sequence[Any]) -> Admitted:
        """Hash single rows, and admit them."""
        items, ticks = zip(*rows, strict=True)
        columns: Columns = hash_items(list(items), self.seed), np.array(ticks, dtype=np.int64)
        if self.keep_items:
            columns = *columns, as_objects(items, len(items))
        return self.admit(tally, only_key(len(rows)), columns)

    def admit(self, tally: PerKey, keys: Int64Array, columns: Columns) -> Admitted:
        """Admit all rows."""
        return Admitted(PerKey(by_key.raised(tally.latest, keys, columns[1])), keys, columns)

    def merge(self, tally: PerKey, into: Int64Array, size: int) -> PerKey:
        """Return the later of the latest times."""
        return PerKey(by_key.raised(np.full(size, NEVER), into, tally.latest))


class ItemElements(Elements):
    """Elements with the identity of an item, and the item itself if items are kept."""

    distinct = True
    level_range = (0, 63)

    def __init__(self, seed: int, keep_items: bool) -> None:
        self._seed, self._keep_items = seed, keep_items
        items: list[ColumnCodec] = [ItemCodec()] if keep_items else []
        self.codecs: Sequence[ColumnCodec] = [IdentityCodec(), *items]

    def levels(self, rows: Columns) -> Int64Array:
        """Return the levels that follow from the hashes."""
        return levels_of_items(rows[0])

    def payload(self, rows: Columns, levels: Any) -> Columns:
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


def as_objects(items: Any, size: int) -> NDArray[Any]:
    """Return items as an array of ``size`` Python objects; a single item is broadcast."""
    out = np.empty(() if is_one(items) else size, dtype=object)
    if is_one(items):
        out[()] = items.item() if isinstance(items, np.generic) else items
        return np.broadcast_to(out, size)
    plain = items if isinstance(items, Sequence) else np.asarray(items).tolist()
    out[:] = [item.item() if isinstance(item, np.generic) else item for item in plain]
    return out
