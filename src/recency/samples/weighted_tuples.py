"""Tuples (id, value, weight, time), of which equal ones count once; sampled by weight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from recency.algorithm import Admitted, Columns, PerKey
from recency.core import by_key, validate
from recency.core.arrays import FloatArray, Int64Array, UInt64Array
from recency.core.decaying_levels import LEVELS_BELOW, Fading, RangeFading
from recency.core.hashing import hash_chain, xxh64
from recency.core.level_sample import EXPONENT_ZERO, LevelSample, exponents
from recency.core.range_sampling import MOST_TERMS
from recency.core.samplers import LIMITS, SAMPLERS, Sampler
from recency.samples.algorithm import Elements
from recency.samples.intake import (
    MOST_SUMMAND,
    Check,
    EventIntake,
    check_of,
    least_exponents,
    merged_exponents,
    without_zeros,
)
from recency.samples.records import CoinCodec, ColumnCodec, NumberCodec, SampleStates

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


class Tuples(EventIntake):
    """Intake of rows (hash, time, value, weight); rows of weight 0 are dropped."""

    tally_class = WeightTally
    numbers = ("least", "largest")

    def __init__(self, seed: int, unit: str | None, weights: Weights, copies: int) -> None:
        weight = Check(weights.check_one, weights.check_many, 1)
        super().__init__(seed, unit, check_of("value", exact=True), weight)
        self._copies = copies

    def _drawn(
        self, tally: WeightTally, keys: Int64Array, ticks: Int64Array, *numbers: FloatArray
    ) -> UInt64Array:
        return self._coins(np.full(ticks.size, _NO_ID, dtype=np.uint64), ticks, *numbers)

    def _coins(self, ids: UInt64Array, ticks: Int64Array, *numbers: FloatArray) -> UInt64Array:
        # Ids are hashes already, or one constant, so adding the time does not cause collisions.
        who_and_when = ids.view(np.int64) + ticks * _PER_TICK
        return hash_chain(self.seed, who_and_when, *(each.view(np.int64) for each in numbers))

    def _admitted(
        self, tally: WeightTally, keys: Int64Array, rows: Columns, some_ids: bool, all_ids: bool
    ) -> Admitted:
        latest = by_key.raised(tally.latest, keys, rows[1])
        keys, rows = without_zeros(keys, rows)
        heaviest = by_key.raised(np.zeros(tally.size), keys, rows[3])
        largest = np.maximum(tally.largest, np.where(heaviest > 0, exponents(heaviest), 0))
        least = least_exponents(tally.least, keys, rows[3])
        return Admitted(WeightTally(latest, least, largest), keys, rows)

    def merge(self, tally: WeightTally, into: Int64Array, size: int) -> WeightTally:
        """Return the tally of merged keys."""
        merged = WeightTally.empty(size)
        return WeightTally(
            by_key.raised(merged.latest, into, tally.latest),
            merged_exponents(tally.least, into, size),
            by_key.raised(merged.largest, into, tally.largest),
        )

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


class TupleElements(Elements):
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

    def payload(self, rows: Columns, levels: Any) -> Columns:
        """Return the coin (the bits of the hash that are kept), value and weight."""
        return _coins(rows[0]), rows[2], rows[3]

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
