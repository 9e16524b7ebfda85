"""Events with a number each: every one counts, and draws a coin of its own (see coins.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import NEVER, Admitted, Columns, described
from recency.core import by_key, validate
from recency.core.arrays import BoolArray, FloatArray, Int64Array, UInt64Array
from recency.core.hashing import chained, check_one, hash_items, is_one
from recency.core.level_sample import LevelSample, levels_of_items, levels_of_weights
from recency.keyed import only_key
from recency.samples import coins
from recency.samples.algorithm import Placed
from recency.samples.coins import CoinTally
from recency.samples.records import ColumnCodec, NumberCodec, SampleStates
from recency.timeunit import to_tick, to_ticks

MOST_SUMMAND = 2.0**960  # sums of fewer than 2⁶³ of them are finite


@dataclass(frozen=True, eq=False)
class EventTally(CoinTally):
    """What coins depend on, and what is known of ids."""

    is_counted: BoolArray
    """Whether all events are in the sums by age: they all had ids."""
    start = {**CoinTally.start, "is_counted": False}  # noqa: RUF012


class Events:
    """Rows are (coin, time, value)."""

    numbers: tuple[str, ...] = ("stream", "index")
    flags: tuple[str, ...] = ("by_id", "is_counted")
    draws_coins = True

    def __init__(
        self,
        seed: int,
        unit: str | None,
        check_number: Callable[[Any], float],
        check_numbers: Callable[[Any], FloatArray],
        counting: Callable[[FloatArray], Int64Array | None],
    ) -> None:
        self._seed, self._unit, self._counting = seed, unit, counting
        self._check_number, self._check_numbers = check_number, check_numbers

    def empty(self, size: int, first_stream: int) -> EventTally:
        """One stream after the other."""
        fields = vars(empty_tally(size, first_stream))
        return EventTally(**fields, is_counted=np.zeros(size, dtype=np.bool_))

    def tally(
        self,
        latest: Int64Array,
        numbers: tuple[Int64Array, ...],
        flags: tuple[BoolArray, ...],
    ) -> EventTally:
        """With what was written."""
        (stream, index), (by_id, is_counted) = numbers, flags
        return EventTally(latest, stream, index, by_id, is_counted)

    def check(self, size: int | None, value: Any = 1, at: Any = None, id: Any = None) -> Columns:
        """Values, times, and the coins of ids if there are any."""
        values, ticks = self._check_numbers(value), to_ticks(at, self._unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "at": ticks}
        ids = hashed_ids(id, self._seed, columns)
        if size is None:
            size = validate.common_length(columns)
        values = np.broadcast_to(values, size) + 0.0  # in which zero has one sign
        ticks = np.broadcast_to(ticks, size)
        return (values, ticks) if ids is None else (values, ticks, _coins(ids, ticks, values))

    def check_row(self, value: Any, at: Any, id: Any) -> Any:
        """Value, time, id."""
        row = self._check_number(value), to_tick(at, self._unit), id
        if id is not None:
            check_one(id, "id")
        return row

    def stack(self, tally: EventTally, rows: Sequence[Any]) -> Admitted:
        """Some with ids, perhaps, and some without."""
        values_of_rows, ticks_of_rows, ids = zip(*rows, strict=True)
        values, ticks = np.array(values_of_rows) + 0.0, np.array(ticks_of_rows, dtype=np.int64)
        keys = only_key(len(rows))
        known = [i for i, id in enumerate(ids) if id is not None]
        if not known:
            return self.admit(tally, keys, (values, ticks))
        hashes = hash_items([ids[i] for i in known], self._seed, "id")
        drawn = coins.drawn(self._seed, tally, keys, values.view(np.int64), ticks)
        drawn[known] = _coins(hashes, ticks[known], values[known])
        return self._admitted(tally, keys, (drawn, ticks, values), True, len(known) == len(rows))

    def admit(self, tally: EventTally, keys: Int64Array, columns: Columns) -> Admitted:
        """Those that count."""
        values, ticks, *of_ids = columns
        if of_ids:
            return self._admitted(tally, keys, (of_ids[0], ticks, values), True, True)
        drawn = coins.drawn(self._seed, tally, keys, values.view(np.int64), ticks)
        return self._admitted(tally, keys, (drawn, ticks, values), False, False)

    def _admitted(
        self, tally: EventTally, keys: Int64Array, rows: Columns, some_ids: bool, all_ids: bool
    ) -> Admitted:
        _, ticks, values = rows
        came = by_key.counts(keys, tally.size) > 0
        is_counted = np.where(came, all_ids & (tally.is_counted | ~tally.seen), tally.is_counted)
        counted = EventTally(*coins.counted(tally, keys, ticks, came & some_ids), is_counted)
        index = self._counting(values)
        if index is not None:
            keys, rows = keys[index], tuple(column[index] for column in rows)
        return Admitted(counted, keys, rows)

    def merge(self, tally: EventTally, into: Int64Array, size: int) -> EventTally:
        """Events of all."""
        some, others = (
            np.bincount(into, which, size) > 0
            for which in (tally.is_counted, tally.seen & ~tally.is_counted)
        )
        return EventTally(*coins.merged(tally, into, size), some & ~others)

    def finalize(self, tally: EventTally, prototype: EventTally) -> CoinTally:
        """With the stream that coins came from, or else the prototype's."""
        return coins.finalized(tally, prototype)

    def check_merge(
        self, tally: CoinTally, into: Int64Array, owners: Int64Array, times: Int64Array
    ) -> None:
        """Coins should differ."""
        coins.check_shared(tally, into, owners, times)

    def what_was_seen(self, tally: CoinTally, kept: Int64Array) -> list[str]:
        """The number of events, and the latest time."""
        return described("{} events, latest={}", tally.index, tally.latest)

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """More must have been seen than is kept, or than there was room for."""
        _, index = states.extra
        by_id, is_counted = states.flags
        if (is_counted & ~by_id).any():
            return "sums of events with ids, and there were none"
        kept = np.bincount(states.sample.keys, minlength=index.size)
        if (index[~states.seen] > 0).any() or (kept > index).any():
            return "more events than were seen"
        if (index[states.sample.edge_keys] <= capacity).any():
            return "a level that has forgotten events, and fewer were seen than it has room for"
        return None


def empty_tally(size: int, first_stream: int) -> CoinTally:
    """Streams from one on."""
    streams, none = np.arange(first_stream, first_stream + size), np.zeros(size, dtype=np.int64)
    return CoinTally(np.full(size, NEVER), streams, none, none > 0)


def hashed_ids(id: Any, seed: int, columns: dict[str, NDArray[Any]]) -> UInt64Array | None:
    """Hashes of ids, if there are any, which join the columns that must have one length."""
    if id is None:
        return None
    hashes = hash_items(id, seed, "id")
    columns["id"] = hashes.reshape(()) if is_one(id) else hashes
    return hashes


def _coins(ids: UInt64Array, ticks: Int64Array, values: FloatArray) -> UInt64Array:
    """Coins of events with ids: of integers Spark's ``xxhash64(seed, id, ticks, value)``."""
    return chained(np.broadcast_to(ids, ticks.size), ticks, values.view(np.int64))


class Levels(Protocol):
    """At which levels values are."""

    bounds: tuple[int, int]

    def of(self, drawn: UInt64Array, values: FloatArray) -> Int64Array:
        """The level of each."""
        ...

    def flaw(self, sample: LevelSample) -> str | None:
        """What is wrong with a sample that was read, if anything."""
        ...


class CoinLevels:
    """The coin alone decides: all values are sampled alike."""

    bounds = (0, 63)

    def of(self, drawn: UInt64Array, values: FloatArray) -> Int64Array:
        """That of the coin."""
        return levels_of_items(drawn)

    def flaw(self, sample: LevelSample) -> str | None:
        """None that can be told."""
        return None


class WeightLevels:
    """The larger a value, the higher."""

    bounds = (-1074, 1014)

    def __init__(self, name: str = "value") -> None:
        self._name = name

    def of(self, drawn: UInt64Array, values: FloatArray) -> Int64Array:
        """⌊log₂(value/U)⌋."""
        return levels_of_weights(values, drawn)

    def flaw(self, sample: LevelSample) -> str | None:
        """Levels must be possible."""
        weights = sample.columns[0]
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return f"a {self._name} out of range"
        # A coin is in [2⁻⁵³, 1]: no element is below the level of its own weight, or 54 above.
        above = sample.levels - (np.frexp(weights)[1] - 1)
        if (above < 0).any() or (above > 54).any():
            return f"a {self._name} at a level that is not its own"
        return None


class ValueElements:
    """Values, of which every one counts."""

    distinct = False

    def __init__(self, levels: Levels) -> None:
        self._levels, self.level_range = levels, levels.bounds
        self.codecs: Sequence[ColumnCodec] = [NumberCodec()]
        self.flaw = levels.flaw

    def draws(self, rows: Columns) -> Sequence[Columns]:
        """One."""
        return (rows,)

    def levels(self, rows: Columns) -> Int64Array:
        """By coin and value."""
        return self._levels.of(rows[0], rows[2])

    def payload(self, rows: Columns, levels: Int64Array) -> Columns:
        """The value."""
        return (rows[2],)

    def thinned(self, placed: Placed) -> Placed:
        """All."""
        return placed
