"""Many sketches of one configuration, by key."""

from collections.abc import Hashable, Iterator, Mapping, Set
from inspect import signature
from typing import Any, Generic, TypeVar

import numpy as np

from recency.column import is_one_for_all
from recency.core import validate
from recency.core.arrays import Int64Array
from recency.core.rank_log import MOST_LEVELS
from recency.keys import canonical, distinct
from recency.sketch import Sketch, decode_many

S = TypeVar("S", bound=Sketch)


class Bank(Generic[S]):
    """One sketch for each key that was seen, all updated by one kernel call.

    ``bank[key]`` is what ``prototype.empty_like(stream=n)`` is after the updates of that key, to
    the byte, where n counts keys as they first came.

    A key is the same whether it came in a list, an array, or a column of pandas or Arrow, and is
    found by any value that means it. Keys are equal as in a dict (1, 1.0 and True are one), and
    besides: NumPy's and Arrow's scalars are Python's values; what is missing is None; all NaN are
    one key; points in time are naive ``datetime``s, or in UTC if they have a zone, and dates their
    midnight; durations are ``timedelta``s. See :mod:`recency.keys`.

    Examples
    --------
    >>> from recency import Bank, ExponentialHistogram
    >>> requests = Bank(ExponentialHistogram(window=3600))
    >>> requests.update_many(["web", "api", "web"], at=[10, 20, 30])
    >>> requests.update_many("api", at=[40, 50])
    >>> {key: float(sketch.query(25, now=50)) for key, sketch in requests.items()}
    {'web': 1.0, 'api': 2.0}
    """

    def __init__(self, prototype: S, *, merge_levels: int = 0, stream: int = 0) -> None:
        if not isinstance(prototype, Sketch):
            raise TypeError(f"prototype must be a sketch, got {type(prototype).__name__}")
        if not prototype.is_empty:
            raise ValueError("prototype must be empty")
        validate.integer(merge_levels, "merge_levels", 0, MOST_LEVELS)
        validate.integer(stream, "stream", 0)
        self.prototype = prototype
        self._column = prototype._column(merge_levels, stream)
        self._numbers: dict[Hashable, int] = {}

    def update_many(self, keys: Any, /, *values: Any, **columns: Any) -> None:
        """``update_many`` of the sketches with these keys: one key for each row, or one for all.

        ``values`` and ``columns`` are the arguments of the sketch's own ``update_many``. Refused,
        it changes nothing.
        """
        arguments = signature(self.prototype.update_many).bind(*values, **columns).arguments
        size = _rows(keys, arguments)
        if not size:
            keys = []
        numbers = self._number([keys] if _is_one_key(keys) else keys)
        self._column.update_many(np.broadcast_to(numbers, size), arguments, len(self._numbers))

    def _number(self, keys: Any) -> Int64Array:
        """Numbers of keys; new ones are given out as keys come."""
        different, which = distinct(keys)
        known = self._known
        numbers = [known.setdefault(key, len(known)) for key in different]
        return np.array(numbers, dtype=np.int64)[which]

    @property
    def _known(self) -> dict[Hashable, int]:
        """Numbers of the keys that have rows.

        An update that was refused or interrupted may have given out further ones.
        """
        numbers, size = self._numbers, len(self._column)
        if len(numbers) > size:
            for key in list(numbers)[size:]:
                numbers.pop(key, None)
        return numbers

    def __getitem__(self, key: Hashable) -> S:
        """The sketch of a key, on its own: a copy."""
        sketch: Any = self._column.sketch(self._known[canonical(key)])
        return sketch  # type: ignore[no-any-return]

    def __len__(self) -> int:
        """How many keys were seen."""
        return len(self._known)

    def __contains__(self, key: object) -> bool:
        """Whether a key was seen."""
        return canonical(key) in self._known

    def __iter__(self) -> Iterator[Hashable]:
        """Keys, as they first came."""
        return iter(self._known)

    def items(self) -> Iterator[tuple[Hashable, S]]:
        """Keys and their sketches."""
        sketches: Any = decode_many(self._column.frames(finished=False)[: len(self)])
        yield from zip(self, sketches, strict=True)

    def to_bytes(self) -> dict[Hashable, bytes]:
        """``to_bytes`` of every sketch, in one pass."""
        frames = self._column.frames(finished=False)
        return dict(zip(self._known, frames[: len(self)], strict=True))

    def __repr__(self) -> str:
        """How many of what."""
        return f"Bank({len(self)} × {type(self.prototype).__name__})"


def _is_one_key(keys: Any) -> bool:
    if isinstance(keys, Iterator | Set | Mapping | bytearray | memoryview):
        raise TypeError(
            f"keys must be a key, or a list or column of them, got {type(keys).__name__}"
        )
    return is_one_for_all(keys) or isinstance(keys, tuple)


def _rows(keys: Any, arguments: dict[str, Any]) -> int:
    columns = [column for column in arguments.values() if not is_one_for_all(column)]
    if _is_one_key(keys):
        return len(columns[0]) if columns else 1
    return len(keys)
