"""Tuples (id, value, weight, time), of which equal ones count once; sampled by weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import Admitted, Columns, PerKey, described
from recency.core import by_key, validate
from recency.core.arrays import INT64_MAX, FloatArray, Int64Array, UInt64Array
from recency.core.decaying_levels import LEVELS_BELOW, Fading, RangeFading
from recency.core.hashing import check_one, hash_chain, hash_items, xxh64
from recency.core.level_sample import EXPONENT_ZERO, LevelSample, exponents
from recency.core.range_sampling import MOST_TERMS
from recency.core.samplers import LIMITS, SAMPLERS, Sampler
from recency.keyed import only_key
from recency.samples.algorithm import Placed
from recency.samples.events import MOST_SUMMAND, hashed_ids
from recency.samples.records import CoinCodec, ColumnCodec, NumberCodec, SampleStates
from recency.timeunit import to_tick, to_ticks

_NO_ID = 0x5BD1E995_9E3779B9  # takes the place of the hash of an id
_PER_TICK = np.int64(0x1E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class WeightTally(PerKey):
    """Tally with :func:`exponents` of the smallest and the largest weight; 0 for none."""

    least: Int64Array
    largest: Int64Array


class Weights(Protocol):
    """Which weights are allowed, and how elements are sampled by weight."""

    sampler: Sampler
    fading: type[Fading]
    sink_together: bool
    """Whether the decay of all elements keeps the ratios of their weights."""

    def check_one(self, weight: Any) -> float:
        """Return a weight as a float, or refuse it."""
        ...

    def check_many(self, weights: Any) -> FloatArray:
        """Return weights as floats, or refuse them."""
        ...

    def bottoms(self, largest: Int64Array) -> Int64Array:
        """Return the lowest levels that are kept under a decay."""
        ...

    def flaw(self, sample: LevelSample) -> str | None:
        """Return what is wrong with the weights of a sample that was read, or None."""
        ...


class RealWeights:
    """Any numbers ≥ 0 as weights, with the uniform sampler."""

    sampler = SAMPLERS["uniform"]
    fading: type[Fading] = Fading
    sink_together = True

    def check_one(self, weight: Any) -> float:
        """Return a weight small enough for sums to be finite."""
        return validate.number(weight, "weight", 0, MOST_SUMMAND)

    def check_many(self, weights: Any) -> FloatArray:
        """Return weights small enough for sums to be finite."""
        return validate.numbers(weights, "weight", 0, MOST_SUMMAND)

    def bottoms(self, largest: Int64Array) -> Int64Array:
        """Return levels at a fixed distance below the largest weight."""
        return largest - EXPONENT_ZERO - LEVELS_BELOW

    def flaw(self, sample: LevelSample) -> str | None:
        """Return None: all weights are possible."""
        return None


class RangeWeights:
    """Integers as weights, with the range sampler: a weight is a range of hashed integers."""

    sampler = SAMPLERS["range"]
    fading: type[Fading] = RangeFading
    sink_together = False

    def check_one(self, weight: Any) -> float:
        """Return an integer weight that is not too large for a range."""
        return float(validate.integer(weight, "weight", 0, MOST_TERMS))

    def check_many(self, weights: Any) -> FloatArray:
        """Return integer weights that are not too large for a range."""
        return validate.integers(weights, "weight", 0, MOST_TERMS).astype(np.float64)

    def bottoms(self, largest: Int64Array) -> Int64Array:
        """Return level 0, which has all integers."""
        return np.zeros_like(largest)

    def flaw(self, sample: LevelSample) -> str | None:
        """Return an error if a weight or level does not fit a range."""
        weights = sample.columns[2]
        if ((weights > MOST_TERMS) | (weights % 1 != 0)).any():
            return "a weight that has no range"
        if ((sample.edge_levels < 0) | (sample.edge_levels > LIMITS.size - 2)).any():
            return "a level that ranges do not have"
        return None


WEIGHTS: dict[str, Callable[[], Weights]] = {"uniform": RealWeights, "range": RangeWeights}


class Tuples:
    """Intake of rows (hash, time, value, weight); rows of weight 0 are dropped."""

    numbers: tuple[str, ...] = ("least", "largest")
    flags: tuple[str, ...] = ()
    draws_coins = False

    def __init__(self, seed: int, unit: str | None, weights: Weights, copies: int) -> None:
        self._seed, self._unit, self._weights, self._copies = seed, unit, weights, copies
        self._check_value = partial(validate.number, name="value", exact=True)

    def empty(self, size: int, first_stream: int) -> WeightTally:
        """Return empty tallies; coins are hashes of tuples, so the stream number has no effect."""
        return WeightTally.empty(size)

    def tally(self, latest: Int64Array, numbers: tuple[Int64Array, ...], flags: Any) -> WeightTally:
        """Return the tally of keys that were read."""
        least, largest = numbers
        return WeightTally(latest, least, largest)

    def check(
        self, size: int | None, value: Any = 0, at: Any = None, weight: Any = 1, id: Any = None
    ) -> Columns:
        """Return columns of hashes, times, values and weights."""
        values = validate.numbers(value, "value", exact=True)
        weights, ticks = self._weights.check_many(weight), to_ticks(at, self._unit)
        columns: dict[str, NDArray[Any]] = {"value": values, "weight": weights, "at": ticks}
        ids = hashed_ids(id, self._seed, columns)
        if size is None:
            size = validate.common_length(columns)
        if ids is None:
            ids = np.full(1, _NO_ID, dtype=np.uint64)
        return self._hashed(
            np.broadcast_to(ids, size),
            np.broadcast_to(ticks, size),
            np.broadcast_to(values, size) + 0.0,  # + 0.0 turns -0.0 into 0.0
            np.broadcast_to(weights, size) + 0.0,
        )

    def check_row(self, value: Any, at: Any, weight: Any, id: Any) -> Any:
        """Return value, time, weight and id of one row."""
        number, heavy = self._check_value(value), self._weights.check_one(weight)
        if id is not None:
            check_one(id, "id")
        return number, to_tick(at, self._unit), heavy, id

    def stack(self, tally: WeightTally, rows: Sequence[Any]) -> Admitted:
        """Hash single rows, and admit them."""
        values, ticks, weights, ids = zip(*rows, strict=True)
        hashes = np.full(len(ids), _NO_ID, dtype=np.uint64)
        known = [i for i, id in enumerate(ids) if id is not None]
        if known:
            hashes[known] = hash_items([ids[i] for i in known], self._seed, "id")
        columns = self._hashed(
            hashes,
            np.array(ticks, dtype=np.int64),
            np.array(values) + 0.0,
            np.array(weights) + 0.0,
        )
        return self.admit(tally, only_key(len(rows)), columns)

    def _hashed(
        self, ids: UInt64Array, ticks: Int64Array, values: FloatArray, weights: FloatArray
    ) -> Columns:
        # Ids are hashes already, or one constant, so adding the time does not cause collisions.
        who_and_when = ids.view(np.int64) + ticks * _PER_TICK
        hashes = hash_chain(self._seed, who_and_when, values.view(np.int64), weights.view(np.int64))
        return hashes, ticks, values, weights

    def admit(self, tally: WeightTally, keys: Int64Array, columns: Columns) -> Admitted:
        """Admit the rows of weight above 0."""
        latest = by_key.raised(tally.latest, keys, columns[1])
        if not columns[3].all():
            index = np.flatnonzero(columns[3])
            keys, columns = keys[index], tuple(column[index] for column in columns)
        if not keys.size:
            return Admitted(WeightTally(latest, tally.least, tally.largest), keys, columns)
        weights = columns[3]
        lightest = by_key.lowered(np.full(tally.size, np.inf), keys, weights)
        heaviest = by_key.raised(np.zeros(tally.size), keys, weights)
        came = heaviest > 0
        least, largest = np.where(came, exponents(np.stack([lightest, heaviest])), 0)
        counted = WeightTally(
            latest, _least(tally.least, least), np.maximum(tally.largest, largest)
        )
        return Admitted(counted, keys, columns)

    def merge(self, tally: WeightTally, into: Int64Array, size: int) -> WeightTally:
        """Return the tally of merged keys."""
        merged = WeightTally.empty(size)
        known = np.where(tally.least > 0, tally.least, INT64_MAX)
        least = by_key.lowered(np.full(size, INT64_MAX), into, known)
        return WeightTally(
            by_key.raised(merged.latest, into, tally.latest),
            np.where(least < INT64_MAX, least, 0),
            by_key.raised(merged.largest, into, tally.largest),
        )

    def finalize(self, tally: WeightTally, prototype: WeightTally) -> WeightTally:
        """Return the tally unchanged."""
        return tally

    def check_merge(
        self, tally: WeightTally, into: Int64Array, owners: Int64Array, times: Int64Array
    ) -> None:
        """Accept all parts: equal tuples shall have equal coins."""

    def what_was_seen(self, tally: WeightTally, kept: Int64Array) -> list[str]:
        """Return a text with the number of kept elements and the latest time."""
        return described("{} elements kept, latest={}", kept, tally.latest)

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """Return what is wrong with weights and elements that were read."""
        sample, (least, largest) = states.sample, states.extra
        found, owners = exponents(sample.columns[2]), sample.keys // self._copies
        if (found < least[owners]).any() or (found > largest[owners]).any():
            return "a weight beyond the least and the largest"
        if (least > largest).any() or ((least == 0) != (largest == 0)).any():
            return "weights out of order"
        if (largest > exponents(np.array([MOST_SUMMAND]))[0]).any() or (
            (largest > 0) & (least < EXPONENT_ZERO - 1074)
        ).any():
            return "weights out of range"
        edge_owners = sample.edge_keys // self._copies
        if (largest[~states.seen] > 0).any() or (largest[edge_owners] == 0).any():
            return "weights where nothing was seen"
        return None


def _least(a: Int64Array, b: Int64Array) -> Int64Array:
    """Return the smaller exponent, where 0 means none."""
    return np.where((a > 0) & (b > 0), np.minimum(a, b), np.maximum(a, b))


class TupleElements:
    """Elements with coin, value and weight as payload; the coin identifies the tuple."""

    distinct = True
    level_range = (-1074 - LEVELS_BELOW, 1014)

    def __init__(self, weights: Weights, copies: int) -> None:
        self._weights, self._copies = weights, copies
        self.codecs: Sequence[ColumnCodec] = [CoinCodec(), NumberCodec(), NumberCodec()]

    def draws(self, rows: Columns) -> Sequence[Columns]:
        """Return the rows with a coin for each copy."""
        hashes, *others = rows
        further = (xxh64(hashes, copy) for copy in range(1, self._copies))
        return [rows, *((each, *others) for each in further)]

    def levels(self, rows: Columns) -> Int64Array:
        """Return the levels that the sampler gives."""
        return self._weights.sampler.levels(rows[3], _coins(rows[0]))

    def payload(self, rows: Columns, levels: Any = None) -> Columns:
        """Return the coin (the bits of the hash that are kept), value and weight."""
        return _coins(rows[0]), rows[2], rows[3]

    def thinned(self, placed: Placed) -> Placed:
        """Return all rows."""
        return placed

    def flaw(self, sample: LevelSample) -> str | None:
        """Return an error if a level or weight is impossible."""
        coins, _, weights = sample.columns
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return "a weight out of range"
        flaw = self._weights.flaw(sample)
        if flaw is None and (self._weights.sampler.levels(weights, coins) != sample.levels).any():
            return "an element at a level that is not its own"
        return flaw


def _coins(hashes: UInt64Array) -> UInt64Array:
    return hashes >> np.uint64(11)
