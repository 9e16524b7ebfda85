"""Events with a value and a weight, each of which draws a coin (see coins.py)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from recency.algorithm import Admitted, Columns, described
from recency.core import by_key
from recency.core.arrays import FloatArray, Int64Array, UInt64Array
from recency.core.level_sample import EXPONENT_ZERO, LevelSample, exponents
from recency.samples import coins
from recency.samples.coins import CoinTally
from recency.samples.events import CoinLevels, ValueElements, WeightLevels
from recency.samples.intake import (
    MOST_SUMMAND,
    EventIntake,
    check_of,
    least_exponents,
    merged_exponents,
    without_zeros,
)
from recency.samples.records import AgeCodec, NumberCodec, SampleStates


@dataclass(frozen=True, eq=False)
class WeightedTally(CoinTally):
    """Tally of coins, with the exponent of the smallest weight above 0, or 0 if there is none."""

    least: Int64Array


class WeightedEvents(EventIntake):
    """Intake of rows (coin, time, value, weight); rows of weight 0 are dropped."""

    tally_class = WeightedTally
    draws_coins = True
    numbers = ("stream", "index", "least")
    flags = ("by_id",)

    def __init__(self, seed: int, unit: str | None, most_value: float) -> None:
        value = check_of("value", least=0, most=most_value, exact=True)
        weight = check_of("weight", 1, least=0, most=MOST_SUMMAND)
        super().__init__(seed, unit, value, weight)

    def _admitted(
        self, tally: WeightedTally, keys: Int64Array, rows: Columns, some_ids: bool, all_ids: bool
    ) -> Admitted:
        by_id = (by_key.counts(keys, tally.size) > 0) & some_ids
        counted = coins.counted(tally, keys, rows[1], by_id)
        keys, rows = without_zeros(keys, rows)
        least = least_exponents(tally.least, keys, rows[3])
        return Admitted(WeightedTally(*counted, least), keys, rows)

    def merge(self, tally: WeightedTally, into: Int64Array, size: int) -> WeightedTally:
        """Return the tally of merged keys."""
        least = merged_exponents(tally.least, into, size)
        return WeightedTally(*coins.merged(tally, into, size), least)

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


class BucketElements(ValueElements):
    """Elements with weight and time as payload; the value takes the place of the time."""

    codecs = (NumberCodec(), AgeCodec())

    def __init__(self, levels: CoinLevels, most_value: float) -> None:
        super().__init__(levels)
        self._most_value = most_value

    def payload(self, rows: Columns, levels: Any) -> Columns:
        """Return weight and time."""
        return rows[3], rows[1]

    def flaw(self, sample: LevelSample) -> str | None:
        """Return an error if a weight, value or level is impossible."""
        weights = sample.columns[0]
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return "a weight out of range"
        most = order_of(min(self._most_value, float(np.finfo(np.float64).max)))
        for orders in (sample.times, sample.edges):
            if (orders < 0).any() or (orders > most).any():
                return "a value out of range"
        return super().flaw(sample)


class OneLevel(CoinLevels):
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
