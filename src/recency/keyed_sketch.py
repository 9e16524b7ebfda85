"""Sketches on the keyed engine: a sketch is the one-key case of :class:`recency.keyed.Keyed`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from recency.algorithm import Algorithm
from recency.core import validate
from recency.core.arrays import Int64Array
from recency.core.codec import RecordReader, RecordWriter
from recency.core.rank_log import MOST_LEVELS
from recency.estimate import Estimate
from recency.keyed import Keyed, joined
from recency.sketch import Sketch, encode_records


class KeyedSketch(Sketch):
    """A sketch that is made of an algorithm."""

    _keyed: Keyed

    def _start(self, algorithm: Algorithm, stream: int = 0) -> None:
        self._keyed = Keyed(algorithm, 1, first_stream=stream)

    def _with(self, keyed: Keyed) -> Self:
        """A sketch like this one in another state."""
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        twin._keyed = keyed
        return twin

    @property
    def _algorithm(self) -> Any:
        return self._keyed.algorithm

    @property
    def merge_law(self) -> Any:  # type: ignore[override]
        """``"exact"`` or ``"bounded"``."""
        return self._algorithm.merge_law

    @property
    def needs_order(self) -> bool:  # type: ignore[override]
        """Whether events must come in time order, but for those of one ``update_many``."""
        return bool(self._algorithm.needs_order)

    @property
    def latest(self) -> int | None:
        """The latest time seen, in ticks; None when empty."""
        tally = self._keyed.tally
        return int(tally.latest[0]) if tally.seen[0] else None

    @property
    def guarantee(self) -> float:
        """The relative error promised now, merging included."""
        return float(self._algorithm.guarantee(self._keyed.state())[0])

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sketch of the same configuration; see :meth:`Sketch.empty_like`."""
        levels = validate.integer(merge_levels, "merge_levels", 0, MOST_LEVELS)
        first = 0 if stream is None else validate.integer(stream, "stream", 0)
        return self._with(Keyed(self._algorithm, 1, levels, first))

    def copy(self) -> Self:
        """An independent sketch in the same state."""
        return self._with(Keyed.of(self._algorithm, self._keyed.state()))

    def merge(self, other: Self) -> Self:
        """Take in another sketch of equal configuration, which is not changed; returns self.

        Equal to having seen the events of both, exactly or within ``guarantee`` as ``merge_law``
        says. Merging with an empty sketch changes nothing.
        """
        self._check_mergeable(other)
        if not other.is_empty:
            both = [other] if self.is_empty else [self, other]
            self._keyed = self._merged(both)._keyed if len(both) > 1 else other.copy()._keyed
        return self

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        together = joined([sketch._keyed for sketch in sketches])
        return sketches[0]._with(together.merged(np.zeros(len(sketches), dtype=np.int64), 1))

    def _become(self, other: Self) -> None:
        self._keyed = Keyed.of(other._algorithm, other._keyed.state())

    def _finish(self, prototype: Self) -> None:
        self._keyed = self._keyed.finalized(prototype._keyed)

    def _settle(self) -> None:
        self._keyed.state()

    def _ask(self, answer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The answer of a question to the only key."""
        given = answer(self._keyed.view(), *args, **kwargs)
        if not isinstance(given, Estimate):
            return given
        value, lower, upper = (each.item() for each in (given.value, given.lower, given.upper))
        return Estimate(value, lower, upper, float(np.max(given.confidence)))

    def _column(self, merge_levels: int = 0, stream: int = 0) -> Any:
        return KeyedColumn(self, Keyed(self._algorithm, 0, merge_levels, stream))

    def _description(self, seen: str) -> str:
        """``repr``: class, guarantee, window, what was seen, bytes."""
        config, window = self.config, self._algorithm.window
        by_count = getattr(config, "by", "time") == "count"
        unit = config.unit or ("updates" if by_count else "ticks")
        reach = "unbounded" if window is None else f"{window} {unit}"
        try:
            size = f"{self.nbytes} bytes"
        except ValueError:  # a configuration that cannot be written
            size = "not for bytes"
        return (
            f"{type(self).__name__}(guarantee={self.guarantee:.4g}, window={reach}, "
            f"{'empty' if self.is_empty else seen}, {size})"
        )

    @classmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        together = joined([sketch._keyed for sketch in sketches])
        together.algorithm.write(together.state(), writer)

    @classmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        keyed = Keyed.of(prototype._algorithm, prototype._algorithm.read(reader))
        return [prototype._with(each) for each in keyed.split()]


class KeyedColumn:
    """Many such sketches, as :class:`recency.column.Column` has them."""

    def __init__(self, prototype: KeyedSketch, keyed: Keyed) -> None:
        self._prototype, self._keyed = prototype, keyed

    def __len__(self) -> int:
        """How many sketches there are."""
        return len(self._keyed)

    def extend(self, size: int) -> None:
        """Have empty sketches up to number ``size - 1``."""
        self._keyed.extend(size)

    def update_many(self, numbers: Int64Array, arguments: Mapping[str, Any], size: int) -> None:
        """``update_many`` for the sketch with each row's number, of ``size`` sketches then."""
        self._keyed.update_many(numbers, arguments, size)

    def settle(self) -> None:
        """Have no rows buffered."""
        self._keyed.state()

    def sketch(self, number: int) -> KeyedSketch:
        """One of them, on its own."""
        return self._prototype._with(self._keyed.take(np.array([number])))

    def frames(self, finished: bool) -> list[bytes]:
        """``to_bytes`` of all, ``finished`` or as they are."""
        keyed = self._keyed.finalized(self._prototype._keyed) if finished else self._keyed
        return encode_records(self._prototype, keyed.records())

    @property
    def nbytes(self) -> int:
        """Memory held, roughly."""
        return self._keyed.nbytes
