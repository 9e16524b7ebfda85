"""Events with a value and a weight, each of which draws a coin (see coins.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import Admitted, Columns, described
from recency.core import by_key, validate
from recency.core.arrays import INT64_MAX, BoolArray, FloatArray, Int64Array, UInt64Array
from recency.core.hashing import chained, check_one, hash_items
from recency.core.level_sample import EXPONENT_ZERO, LevelSample, exponents
from recency.keyed import only_key
from recency.samples import coins
from recency.samples.algorithm import Placed
from recency.samples.coins import CoinTally
from recency.samples.events import MOST_SUMMAND, Levels, WeightLevels, empty_tally, hashed_ids
from recency.samples.records import AgeCodec, ColumnCodec, NumberCodec, SampleStates
from recency.timeunit import to_tick, to_ticks

CheckMerge = Callable[[CoinTally, Int64Array, Int64Array, Int64Array], None]


@dataclass(frozen=True, eq=False)
class WeightedTally(CoinTally):
    """Tally of coins, with the exponent of the smallest weight above 0, or 0 if there is none."""

    least: Int64Array


class WeightedEvents:
    """Intake of rows (coin, time, value, weight); rows of weight 0 are dropped."""

    numbers: tuple[str, ...] = ("stream", "index", "least")
    flags: tuple[str, ...] = ("by_id",)
    draws_coins = True

    def __init__(
        self, seed: int, unit: str | None, most_value: float, check_merge: CheckMerge
    ) -> None:
        self._seed, self._unit = seed, unit
        value: Any = {"name": "value", "least": 0, "most": most_value, "exact": True}
        weight: Any = {"name": "weight", "least": 0, "most": MOST_SUMMAND}
        self._check_value: Callable[[Any], float] = partial(validate.number, **value)
        self._check_values: Callable[[Any], FloatArray] = partial(validate.numbers, **value)
        self._check_weight: Callable[[Any], float] = partial(validate.number, **weight)
        self._check_weights: Callable[[Any], FloatArray] = partial(validate.numbers, **weight)
        self.check_merge = check_merge

    def empty(self, size: int, first_stream: int) -> WeightedTally:
        """Return empty tallies, with consecutive stream numbers from ``first_stream``."""
        counted = empty_tally(size, first_stream)
        return WeightedTally(**vars(counted), least=np.zeros(size, dtype=np.int64))

    def tally(
        self,
        latest: Int64Array,
        numbers: tuple[Int64Array, ...],
        flags: tuple[BoolArray, ...],
    ) -> WeightedTally:
        """Return the tally of keys that were read."""
        (stream, index, least, *_), (by_id,) = numbers, flags
        return WeightedTally(latest, stream, index, by_id, least)

    def check(
        self, size: int | None, value: Any = None, at: Any = None, weight: Any = 1, id: Any = None
    ) -> Columns:
        """Return columns of values, weights and times, and the coins of ids if given."""
        values, weights = self._check_values(value), self._check_weights(weight)
        ticks = to_ticks(at, self._unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "weight": weights, "at": ticks}
        ids = hashed_ids(id, self._seed, columns)
        if size is None:
            size = validate.common_length(columns)
        values = np.broadcast_to(values, size) + 0.0  # + 0.0 turns -0.0 into 0.0
        weights, ticks = np.broadcast_to(weights, size) + 0.0, np.broadcast_to(ticks, size)
        rows: Columns = values, weights, ticks
        if ids is None:
            return rows
        return *rows, _coins(np.broadcast_to(ids, size), values, weights, ticks)

    def check_row(self, value: Any, at: Any, weight: Any, id: Any) -> Any:
        """Return value, weight, time and id of one row."""
        number, heavy = self._check_value(value), self._check_weight(weight)
        if id is not None:
            check_one(id, "id")
        return number, heavy, to_tick(at, self._unit), id

    def stack(self, tally: WeightedTally, rows: Sequence[Any]) -> Admitted:
        """Admit single rows, some of which may have ids."""
        *numbers, times, ids = zip(*rows, strict=True)
        values, weights = (np.array(each) + 0.0 for each in numbers)
        ticks = np.array(times, dtype=np.int64)
        keys = only_key(len(rows))
        known = [i for i, id in enumerate(ids) if id is not None]
        if not known:
            return self.admit(tally, keys, (values, weights, ticks))
        hashes = hash_items([ids[i] for i in known], self._seed, "id")
        drawn = coins.drawn(self._seed, tally, keys, values.view(np.int64), ticks)
        drawn[known] = _coins(hashes, values[known], weights[known], ticks[known])
        return self.admit(tally, keys, (values, weights, ticks, drawn))

    def admit(self, tally: WeightedTally, keys: Int64Array, columns: Columns) -> Admitted:
        """Draw coins, and admit the rows of weight above 0."""
        values, weights, ticks, *of_ids = columns
        if of_ids:
            drawn, by_id = of_ids[0], by_key.counts(keys, tally.size) > 0
        else:
            drawn = coins.drawn(self._seed, tally, keys, values.view(np.int64), ticks)
            by_id = np.zeros(tally.size, dtype=np.bool_)
        counted = coins.counted(tally, keys, ticks, by_id)
        rows: Columns = drawn, ticks, values, weights
        if not weights.all():
            index = np.flatnonzero(weights)
            keys, rows = keys[index], tuple(column[index] for column in rows)
        lightest = np.full(tally.size, np.inf)
        lightest = -by_key.raised(-lightest, keys, -rows[3])
        came = np.isfinite(lightest)
        least = np.where(came, exponents(np.where(came, lightest, 1.0)), 0)
        return Admitted(WeightedTally(*counted, _least(tally.least, least)), keys, rows)

    def merge(self, tally: WeightedTally, into: Int64Array, size: int) -> WeightedTally:
        """Return the tally of merged keys."""
        least = np.full(size, INT64_MAX)
        np.minimum.at(least, into, np.where(tally.least > 0, tally.least, INT64_MAX))
        return WeightedTally(
            *coins.merged(tally, into, size), np.where(least < INT64_MAX, least, 0)
        )

    def finalize(self, tally: WeightedTally, prototype: WeightedTally) -> CoinTally:
        """Keep the stream number if coins came from it; otherwise take the prototype's."""
        return coins.finalized(tally, prototype)

    def what_was_seen(self, tally: Any, kept: Int64Array) -> list[str]:
        """Return a text with the number of events, of buckets, and the latest time."""
        return described("{} events, {} buckets, latest={}", tally.index, kept, tally.latest)

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """Return what is wrong with counts, weights and elements that were read."""
        sample, (_, index, least, buckets) = states.sample, states.extra
        if (buckets[~states.seen] > 0).any() or (index[~states.seen] > 0).any():
            return "elements where nothing was seen"
        owners = np.repeat(np.arange(buckets.size), buckets)[sample.keys]
        if (np.bincount(owners, minlength=index.size) > index).any():
            return "more elements than were seen"
        if (exponents(sample.columns[0]) < least[owners]).any() or (
            (least == 0) & (buckets > 0)
        ).any():
            return "a weight below the least"
        highest = exponents(np.array([MOST_SUMMAND]))[0]
        if (least > highest).any() or (least[least > 0] < EXPONENT_ZERO - 1074).any():
            return "weights out of range"
        return None


def _least(a: Int64Array, b: Int64Array) -> Int64Array:
    """Return the smaller exponent, where 0 means none."""
    return np.where((a > 0) & (b > 0), np.minimum(a, b), np.maximum(a, b))


def _coins(
    ids: UInt64Array, values: FloatArray, weights: FloatArray, ticks: Int64Array
) -> UInt64Array:
    return chained(ids, ticks, values.view(np.int64), weights.view(np.int64))


class ValueElements:
    """Elements with weight and time as payload; the value takes the place of the time."""

    distinct = False

    def __init__(self, levels: Levels, most_value: float) -> None:
        self._levels, self._most_value = levels, most_value
        self.level_range = levels.bounds
        self.codecs: Sequence[ColumnCodec] = [NumberCodec(), AgeCodec()]

    def draws(self, rows: Columns) -> Sequence[Columns]:
        """Return the rows, once: there are no copies."""
        return (rows,)

    def levels(self, rows: Columns) -> Int64Array:
        """Return the levels that follow from coin and weight."""
        return self._levels.of(rows[0], rows[3])

    def payload(self, rows: Columns, levels: Int64Array) -> Columns:
        """Return weight and time."""
        return rows[3], rows[1]

    def thinned(self, placed: Placed) -> Placed:
        """Return all rows."""
        return placed

    def flaw(self, sample: LevelSample) -> str | None:
        """Return an error if a weight, value or level is impossible."""
        weights = sample.columns[0]
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return "a weight out of range"
        most = order_of(min(self._most_value, float(np.finfo(np.float64).max)))
        for orders in (sample.times, sample.edges):
            if (orders < 0).any() or (orders > most).any():
                return "a value out of range"
        return self._levels.flaw(sample)


class OneLevel:
    """Levels of samples that keep all elements."""

    bounds = WeightLevels.bounds

    def of(self, drawn: UInt64Array, weights: FloatArray) -> Int64Array:
        """Return level 0 for all."""
        return np.zeros(weights.size, dtype=np.int64)

    def flaw(self, sample: LevelSample) -> str | None:
        """Return None: nothing is sampled."""
        return "a sample where all is kept" if sample.levels.any() or sample.edges.size else None


def order_of(value: float) -> int:
    """Return a value ≥ 0 as an integer of the same order: the bits of the float."""
    return int(np.array(value).view(np.int64))
