"""Intakes: they make rows of arguments, and count them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import Admitted, Columns, PerKey, described
from recency.core import by_key, validate
from recency.core.arrays import INT64_MAX, FloatArray, Int64Array, UInt64Array
from recency.core.hashing import chained, check_one, hash_items, is_one
from recency.core.level_sample import exponents
from recency.keyed import only_key
from recency.samples.coins import drawn
from recency.samples.records import SampleStates
from recency.timeunit import to_tick, to_ticks

MOST_SUMMAND = 2.0**960  # sums of fewer than 2⁶³ of them are finite


class Intake(ABC):
    """Makes rows of arguments, and counts them in a tally."""

    tally_class: type[PerKey] = PerKey
    draws_coins: bool = False
    """Whether events draw coins from a stream, unless they have ids."""
    numbers: tuple[str, ...] = ()
    """The fields of the tally that are written with each sketch, but for ``latest``."""
    flags: tuple[str, ...] = ()
    """The fields of the tally that are written as bits of one number."""
    elements: str = "elements"
    """What is counted in ``repr``."""

    check: Callable[..., Columns]
    """See :meth:`Algorithm.check`."""
    check_row: Callable[..., Any]
    """One checked row, of its arguments."""

    def __init__(self, seed: int, unit: str | None) -> None:
        self.seed, self.unit = seed, unit

    def empty(self, size: int, first_stream: int) -> Any:
        """Return the tally of keys that have seen nothing."""
        tally: Any = self.tally_class.empty(size)
        if not self.draws_coins:
            return tally
        return replace(tally, stream=np.arange(first_stream, first_stream + size))

    def tally(self, states: SampleStates) -> Any:
        """Return the tally of states that were read."""
        latest = np.where(states.seen, states.latest, PerKey.start["latest"])
        written = *states.extra[: len(self.numbers)], *states.flags
        fields = zip((*self.numbers, *self.flags), written, strict=True)
        return self.tally_class(latest, **dict(fields))

    @abstractmethod
    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """See :meth:`Algorithm.stack`."""

    @abstractmethod
    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """See :meth:`Algorithm.admit`. The first columns of rows are the coin and the time."""

    @abstractmethod
    def merge(self, tally: Any, into: Int64Array, size: int) -> PerKey:
        """See :meth:`Algorithm.merge`."""

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """Return what is wrong with states that were read, if anything."""
        return None

    def what_was_seen(self, tally: Any, kept: Int64Array) -> list[str]:
        """See :meth:`Algorithm.what_was_seen`; ``kept`` is what the retention says of each key."""
        return described(f"{{}} {self.elements} kept, latest={{}}", kept, tally.latest)


class Check(NamedTuple):
    """How a number of each event is checked."""

    one: Callable[[Any], float]
    many: Callable[[Any], FloatArray]
    default: float = 0


def check_of(name: str, default: float = 0, **bounds: Any) -> Check:
    """Return the check of a number within bounds; see :func:`validate.number`."""
    bounds["name"] = name
    return Check(partial(validate.number, **bounds), partial(validate.numbers, **bounds), default)


class EventIntake(Intake):
    """Rows are (coin, time, value), or (coin, time, value, weight)."""

    def __init__(
        self, seed: int, unit: str | None, value: Check, weight: Check | None = None
    ) -> None:
        super().__init__(seed, unit)
        self._checks = {"value": value}
        self._check_value = value.one
        if weight is not None:
            self._checks["weight"], self._check_weight = weight, weight.one

    def check(self, size: int | None, at: Any = None, id: Any = None, **given: Any) -> Columns:
        """Return columns of numbers and times, and the coins of ids if there are any."""
        columns: dict[str, NDArray[Any]] = {
            name: each.many(given.get(name, each.default)) for name, each in self._checks.items()
        }
        columns["at"] = to_ticks(at, self.unit)
        if id is not None:
            hashes = hash_items(id, self.seed, "id")
            columns["id"] = hashes.reshape(()) if is_one(id) else hashes
        rows = validate.as_columns(size, **columns)
        numbers = tuple(each + 0.0 for each in rows[: len(self._checks)])  # zero has one sign
        ticks, *ids = rows[len(self._checks) :]
        return *numbers, ticks, *(self._coins(each, ticks, *numbers) for each in ids)

    def check_row(self, value: Any, at: Any, weight: Any, id: Any) -> Any:
        """Return value, weight, time and id of one row."""
        number, heavy = self._check_value(value), self._check_weight(weight)
        if id is not None:
            check_one(id, "id")
        return number, heavy, to_tick(at, self.unit), id

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """Admit single rows, some of which may have ids."""
        *given, times, ids = zip(*rows, strict=True)
        numbers = [np.array(each) + 0.0 for each in given]
        ticks, keys = np.array(times, dtype=np.int64), only_key(len(rows))
        known = [i for i, id in enumerate(ids) if id is not None]
        if not known:
            return self.admit(tally, keys, (*numbers, ticks))
        hashes = hash_items([ids[i] for i in known], self.seed, "id")
        coins = self._drawn(tally, keys, ticks, *numbers)
        coins[known] = self._coins(hashes, ticks[known], *(each[known] for each in numbers))
        return self._admitted(tally, keys, (coins, ticks, *numbers), True, len(known) == len(ids))

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """Admit rows, all of which have ids, or none."""
        numbers, (ticks, *of_ids) = columns[: len(self._checks)], columns[len(self._checks) :]
        coins = of_ids[0] if of_ids else self._drawn(tally, keys, ticks, *numbers)
        return self._admitted(tally, keys, (coins, ticks, *numbers), bool(of_ids), bool(of_ids))

    @abstractmethod
    def _admitted(
        self, tally: Any, keys: Int64Array, rows: Columns, some_ids: bool, all_ids: bool
    ) -> Admitted:
        """Return the rows that count, and the tally with all of them."""

    def _drawn(
        self, tally: Any, keys: Int64Array, ticks: Int64Array, *numbers: FloatArray
    ) -> UInt64Array:
        """Return the coins of events without ids."""
        return drawn(self.seed, tally, keys, numbers[0].view(np.int64), ticks)

    def _coins(self, ids: UInt64Array, ticks: Int64Array, *numbers: FloatArray) -> UInt64Array:
        """Return the coins of events with ids: like Spark's ``xxhash64(seed, id, ticks, …)``."""
        return chained(ids, ticks, *(each.view(np.int64) for each in numbers))


def without_zeros(keys: Int64Array, rows: Columns) -> tuple[Int64Array, Columns]:
    """Return the rows whose last number, which is not negative, is not 0."""
    is_positive = rows[-1] > 0  # faster than looking at floats twice
    if is_positive.all():
        return keys, rows
    index = np.flatnonzero(is_positive)
    is_one = not keys.strides[0]  # a single key, broadcast: any of its elements serve
    kept = keys[: index.size] if is_one else keys[index]
    return kept, tuple(column[index] for column in rows)


def least_exponents(least: Int64Array, keys: Int64Array, weights: FloatArray) -> Int64Array:
    """Return the exponents of the smallest weight above 0 of each key; 0 for none."""
    lightest = by_key.lowered(np.full(least.size, np.inf), keys, weights)
    new = np.where(np.isfinite(lightest), exponents(lightest), 0)
    return np.where((least > 0) & (new > 0), np.minimum(least, new), np.maximum(least, new))


def merged_exponents(least: Int64Array, into: Int64Array, size: int) -> Int64Array:
    """Return :func:`least_exponents` of merged keys."""
    known = np.where(least > 0, least, INT64_MAX)
    merged = by_key.lowered(np.full(size, INT64_MAX), into, known)
    return np.where(merged < INT64_MAX, merged, 0)
