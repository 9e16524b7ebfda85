"""Sums over asynchronous streams (Xu, Tirthapura & Busch 2008, §2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import Int64Array, sum_with_bounds
from recency.core.level_sample import NO_LEVEL, levels_of_weights
from recency.core.sample_states import SampleStates
from recency.core.sizing import capacity_for_count, kept_relative_error
from recency.estimate import Estimate
from recency.event_sketch import EventSketch
from recency.sample_sketch import at_least
from recency.timeunit import UNITS, to_duration
from recency.windowed import Duration, Time

MOST_SUMMAND = 2.0**960  # sums of fewer than 2⁶³ of them are finite


@dataclass(frozen=True)
class SumWaveConfig:
    """Configuration of a sum wave; ``window`` in ticks."""

    window: int | None
    relative_error: float
    confidence: float
    capacity: int
    seed: int
    unit: str | None


class SumWave(EventSketch):
    """Sum (or count) over any recent window of a stream that comes in any order.

    **Guarantee.** Within ``relative_error`` of the truth with probability ``confidence``, for any
    one window up to the largest (Theorem 1); exact while nothing in reach was discarded, so at
    least while the window holds at most ``capacity`` events (Lemma 4). Numbers are float64:
    where a sum is 2⁵³ or more, bounds allow for integers that were rounded.

    **Cost.** ``capacity`` is 1 677 at the defaults; about log₂(sum / capacity) levels of so many
    events are kept.

    **Merging** is exact. Sketches that are built side by side need different ``stream`` numbers, or
    ids: otherwise the events with equal indices in all of them share coins and their errors add up.

    **Time.** Late events count where they belong. Windows are half-open, (now − window, now].

    Parameters
    ----------
    window
        The largest window that may be asked, in ticks or as a duration (with ``unit``); None for
        no bound.
    relative_error, confidence
        In (0, 1).
    stream
        Tells apart sketches that are built side by side and merged later.
    capacity
        Events per level; None for what ``relative_error`` and ``confidence`` need.
    seed
        Sketches with different seeds do not merge.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import SumWave
    >>> sales = SumWave(window=10_000)
    >>> sales.update_many([2.5] * 50_000, at=[n * 7919 % 50_000 for n in range(50_000)])
    >>> answer = sales.query(8_000)  # exact: 20,000
    >>> answer.lower <= 20_000 <= answer.upper
    True

    References
    ----------
    Xu, Tirthapura & Busch, *Sketching Asynchronous Data Streams over Sliding Windows*, Distributed
    Computing 2008, §2.
    """

    family = 4
    config: SumWaveConfig
    config_class = SumWaveConfig
    _least_value, _most_value = 0.0, MOST_SUMMAND
    _level_range = (-1074, 1014)

    def __init__(
        self,
        window: Duration | None = None,
        relative_error: float = 0.05,
        confidence: float = 0.95,
        stream: int = 0,
        *,
        capacity: int | None = None,
        seed: int = 0,
        unit: Literal["s", "ms", "us"] | None = None,
    ) -> None:
        validate.one_of(unit, "unit", UNITS)
        error = validate.fraction(relative_error, "relative_error")
        sure = validate.confidence(confidence)
        self.config = SumWaveConfig(
            None if window is None else to_duration(window, unit),
            error,
            sure,
            capacity_for_count(error, 1 - sure)
            if capacity is None
            else validate.integer(capacity, "capacity", 1, 2**31),
            validate.integer(seed, "seed"),
            unit,
        )
        self._begin(stream)

    def update(self, value: float = 1, *, at: Time, id: Any = None) -> None:
        """Add ``value`` ≥ 0 at a time; ``id`` (int, str or bytes), if given, makes the coin."""
        self._update(value, at, id)

    def update_many(self, value: Any = 1, *, at: Any, id: Any = None) -> None:
        """:meth:`update` for arrays; a scalar goes with all elements of the others."""
        self._update_many(value, at, id)

    def _counts(self, values: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        positive = values > 0
        return None if positive.all() else positive

    def _levels(self, columns: Sequence[Int64Array]) -> Int64Array:
        coins, _, bits = columns
        return levels_of_weights(bits.view(np.float64), coins.view(np.uint64))

    @classmethod
    def _check(cls, prototype: Self, states: SampleStates) -> str | None:
        weights = states.sample.columns[0]
        if (weights <= 0).any() or (weights > MOST_SUMMAND).any():
            return "a value out of range"
        # A coin is in [2⁻⁵³, 1]: no element is below the level of its own weight, or 54 above.
        above = states.sample.levels - (np.frexp(weights)[1] - 1)
        if (above < 0).any() or (above > 54).any():
            return "a value at a level that is not its own"
        return super()._check(prototype, states)

    @property
    def guarantee(self) -> float:
        """The relative error kept with probability ``confidence``."""
        config = self.config
        return kept_relative_error(config.capacity, config.relative_error, 1 - config.confidence)

    def query(self, window: Duration | None = None, now: Time | None = None) -> Estimate:
        """The sum of values in (now − window, now]."""
        since = self._since(window, now)
        if self._latest is None:
            return Estimate(0.0, 0.0, 0.0)
        level, present, sampled = self._window_sample(since)
        weights = self._sample.columns[0][present]
        if level == NO_LEVEL:
            return Estimate(*sum_with_bounds(weights))
        # Values from 2ˡ on are all there; the others stand for 2ˡ each, in Poisson number.
        scale = 2.0**level
        large = sum_with_bounds(weights[sampled & (weights >= scale)])
        estimate = self._counted(present[sampled & (weights < scale)], level, certain=large)
        # What is present is certain. It rarely says more than the sample: sum it only if it may.
        may_say_more = 1.001 * weights.sum() > estimate.lower
        return at_least(estimate, *sum_with_bounds(weights)[:2]) if may_say_more else estimate
