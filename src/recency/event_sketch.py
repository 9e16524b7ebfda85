"""What is left of the old classes, for the sketches that are not on the engine yet."""

from collections.abc import Sequence
from typing import Self

from recency.coins import warn_of_shared_coins as warn_of_shared_coins
from recency.core import validate
from recency.core.arrays import (
    Int64Array,
    UInt64Array,
)
from recency.core.hashing import (
    hash_events,
)
from recency.sample_sketch import SampleSketch

_MOST_INDEX = 2**63 - 1  # from there on all events share it; their values and times differ


class DrawsCoins(SampleSketch):
    """A level sample whose events draw coins: the state of these is (stream, index)."""

    _stream: int
    _index: int
    _knows_ids = True

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """A new sketch of the same configuration, of this or another ``stream``."""
        empty = super().empty_like()
        empty._stream = self._stream if stream is None else validate.integer(stream, "stream", 0)
        return empty

    def _finish(self, prototype: Self) -> None:
        if self._by_id or self.is_empty:  # else it is the stream that its coins came from
            self._stream = prototype._stream

    def _extra(self) -> tuple[int, ...]:
        return self._stream, self._index

    def _set_extra(self, extra: Sequence[int]) -> None:
        self._stream, self._index = extra

    @classmethod
    def _merged_extra(cls, extras: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        streams, indices = zip(*extras, strict=True)
        return min(streams), min(sum(indices), _MOST_INDEX)

    @classmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        merged = super()._merged(sketches)
        cls._warn_of_shared_coins(sketches)
        return merged

    @classmethod
    def _warn_of_shared_coins(cls, sketches: Sequence[Self]) -> None:
        drawn = [(each, each._event_times()) for each in sketches if not each._by_id]
        warn_of_shared_coins(
            [
                (sketch._stream, int(times.min()), int(times.max()))
                for sketch, times in drawn
                if times.size
            ]
        )

    def _event_times(self) -> Int64Array:
        """The times of the elements that are kept."""
        return self._sample.times

    def _next_coins(self, bits: Int64Array, ticks: Int64Array) -> UInt64Array:
        """Coins of events that have none; see the module."""
        return hash_events(self.config.seed, self._stream, self._index, bits, ticks)

    def _count(self, events: int) -> None:
        self._index = min(self._index + events, _MOST_INDEX)
