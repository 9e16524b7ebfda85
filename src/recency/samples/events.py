"""Events with a number each: every one counts, and draws a coin of its own (see coins.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recency.algorithm import Admitted, Columns, described
from recency.core import by_key
from recency.core.arrays import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    Int64Array,
    UInt64Array,
    highest_bit,
    run_lengths,
    run_starts,
)
from recency.core.hashing import check_one
from recency.core.level_sample import LevelSample, levels_of_items, levels_of_weights
from recency.samples import coins
from recency.samples.algorithm import Elements
from recency.samples.coins import CoinTally
from recency.samples.intake import MOST_SUMMAND, Check, EventIntake, without_zeros
from recency.samples.records import ColumnCodec, NumberCodec, SampleStates
from recency.timeunit import to_tick

# The binary logarithm of what the elements of a level stand for: to reach it takes 2⁴⁰ events of
# the largest value.
_MOST_TOTAL = 1000


@dataclass(frozen=True, eq=False)
class EventTally(CoinTally):
    """What coins depend on, and what is known of ids."""

    is_counted: BoolArray
    """Whether all events are in the sums by age: they all had ids."""
    start = {**CoinTally.start, "is_counted": False}  # noqa: RUF012


class Events(EventIntake):
    """Rows are (coin, time, value); all of them count, or those of values above 0."""

    tally_class = EventTally
    draws_coins = True
    numbers = ("stream", "index")
    flags = ("by_id", "is_counted")

    def __init__(self, seed: int, unit: str | None, value: Check, drops_zeros: bool) -> None:
        super().__init__(seed, unit, value)
        self._drops_zeros = drops_zeros

    def check_row(self, value: Any, at: Any, id: Any) -> Any:  # type: ignore[override]
        """Return value, time and id of one row."""
        row = self._check_value(value), to_tick(at, self.unit), id
        if id is not None:
            check_one(id, "id")
        return row

    def _admitted(
        self, tally: EventTally, keys: Int64Array, rows: Columns, some_ids: bool, all_ids: bool
    ) -> Admitted:
        came = by_key.counts(keys, tally.size) > 0
        is_counted = np.where(came, all_ids & (tally.is_counted | ~tally.seen), tally.is_counted)
        counted = _counted(coins.counted(tally, keys, rows[1], came & some_ids), is_counted)
        return Admitted(
            counted, *(without_zeros(keys, rows) if self._drops_zeros else (keys, rows))
        )

    def merge(self, tally: EventTally, into: Int64Array, size: int) -> EventTally:
        """Return the tally of merged keys; sums by age are complete if those of all parts are."""
        some, others = (
            np.bincount(into, which, size) > 0
            for which in (tally.is_counted, tally.seen & ~tally.is_counted)
        )
        return _counted(coins.merged(tally, into, size), some & ~others)

    def what_was_seen(self, tally: CoinTally, kept: Int64Array) -> list[str]:
        """Return a text with the number of events and the latest time."""
        return described("{} events, latest={}", tally.index, tally.latest)

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """Return an error if fewer events were seen than are kept, or than there was room for."""
        _, index = states.extra
        by_id, is_counted = states.flags
        if (is_counted & ~by_id).any():
            return "sums of events with ids, and there were none"
        if (is_counted & (index == INT64_MAX)).any():
            return "sums of more events than can be counted"
        kept = np.bincount(states.sample.keys, minlength=index.size)
        if (index[~states.seen] > 0).any() or (kept > index).any():
            return "more events than were seen"
        if (index[states.sample.edge_keys] <= capacity).any():
            return "a level that has forgotten events, and fewer were seen than it has room for"
        return None


_Counted = tuple[Int64Array, Int64Array, Int64Array, BoolArray]


def _counted(fields: _Counted, is_counted: BoolArray) -> EventTally:
    """Return the tally; sums by age end where the number of events does not fit int64 any more."""
    latest, stream, index, by_id = fields
    return EventTally(latest, stream, index, by_id, is_counted & (index < INT64_MAX))


class CoinLevels:
    """Levels that follow from the coin alone: all values are sampled alike."""

    bounds = (0, 63)

    def of(self, drawn: UInt64Array, values: FloatArray) -> Int64Array:
        """Return the level of each element."""
        return levels_of_items(drawn)

    def flaw(self, sample: LevelSample) -> str | None:
        """Return what is wrong with a sample that was read, if anything."""
        return None


class WeightLevels(CoinLevels):
    """Levels ⌊log₂(value/U)⌋: the larger a value, the higher."""

    bounds = (-1074, 1014)

    def __init__(self, name: str = "value") -> None:
        self._name = name

    def of(self, drawn: UInt64Array, values: FloatArray) -> Int64Array:
        """Return the level of each element."""
        return levels_of_weights(values, drawn)

    def flaw(self, sample: LevelSample) -> str | None:
        """Return an error if values or levels are impossible."""
        weights = sample.columns[0]
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return f"a {self._name} out of range"
        # A coin is in [2⁻⁵³, 1]: no element is below the level of its own weight, or 54 above.
        above = sample.levels - (np.frexp(weights)[1] - 1)
        if (above < 0).any() or (above > 54).any():
            return f"a {self._name} at a level that is not its own"
        starts = run_starts(sample.groups)
        counts = run_lengths(starts, sample.groups.size)
        if (sample.levels[starts] + highest_bit(counts) >= _MOST_TOTAL).any():
            return f"more of a {self._name} than any stream has"
        return None


class ValueElements(Elements):
    """Elements with a value, of which every one counts; the level follows from the last column."""

    codecs: Sequence[ColumnCodec] = (NumberCodec(),)

    def __init__(self, levels: CoinLevels) -> None:
        self._levels, self.level_range = levels, levels.bounds

    def levels(self, rows: Columns) -> Int64Array:
        """Return the levels that follow from the coins and the last column."""
        return self._levels.of(rows[0], rows[-1])

    def payload(self, rows: Columns, levels: Any) -> Columns:
        """Return the value."""
        return (rows[2],)

    def flaw(self, sample: LevelSample) -> str | None:
        """Return what is wrong with the levels of a sample that was read, if anything."""
        return self._levels.flaw(sample)
