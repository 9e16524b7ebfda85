"""Many sketches of one configuration, by key."""

from collections.abc import Hashable, Iterator, Mapping, Set
from inspect import signature
from typing import Any, Generic, TypeVar

import numpy as np

from recency.core import validate
from recency.core.arrays import Int64Array
from recency.core.rank_log import MOST_LEVELS
from recency.estimate import Estimate
from recency.keyed import Keyed, is_scalar, joined
from recency.keys import canonical, distinct
from recency.questions import questions_of
from recency.serialization import Frame, encode_keyed, read_frames
from recency.sketch import Sketch

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
        self._keyed = Keyed(prototype._algorithm, 0, merge_levels, stream)
        self._numbers: dict[Hashable, int] = {}

    @classmethod
    def from_bytes(cls, frames: Mapping[Any, Frame], prototype: S | None = None) -> "Bank[S]":
        """A bank of sketches that were written, by key; all of one configuration.

        It is the prototype's, which only an empty bank cannot do without.
        """
        if not isinstance(frames, Mapping):
            raise TypeError(f"frames must be a dict of bytes by key, got {type(frames).__name__}")
        if not isinstance(prototype, Sketch | None):
            raise TypeError(f"prototype must be a sketch, got {type(prototype).__name__}")
        groups = read_frames(frames.values(), None if prototype is None else type(prototype))
        if prototype is None and not groups:
            raise ValueError("a bank of no frames needs a prototype")
        first: Any = groups[0].prototype if prototype is None else prototype
        for group in groups:
            first._check_alike(group.prototype, "put into one bank")
        bank: Bank[S] = cls(first)
        if groups:
            numbers = bank._number(list(frames))
            if np.unique(numbers).size < numbers.size:
                raise ValueError("two of the keys are equal")
            bank._keyed.become(groups[0].keyed)
        return bank

    def update_many(self, keys: Any, /, *values: Any, **columns: Any) -> None:
        """``update_many`` of the sketches with these keys: one key for each row, or one for all.

        ``values`` and ``columns`` are the arguments of the sketch's own ``update_many``. Refused,
        or interrupted, it changes nothing.
        """
        arguments = signature(self.prototype.update_many).bind(*values, **columns).arguments
        size = _rows(keys, arguments)
        if not size:
            keys = []
        numbers = self._number([keys] if _is_one_key(keys) else keys)
        self._keyed.update_many(np.broadcast_to(numbers, size), arguments, len(self._numbers))

    def merge(self, other: "Bank[S]") -> "Bank[S]":
        """Take in the sketches of another bank, key by key; it is not changed. Returns self."""
        if not isinstance(other, Bank):
            raise TypeError(f"cannot merge Bank: the other is a {type(other).__name__}")
        self.prototype._check_mergeable(other.prototype)
        mine = np.arange(len(self))
        theirs = self._number(list(other))
        together = joined([self._keyed, other._keyed])
        into = np.concatenate([mine, theirs])
        self._keyed.become(together.merged(into, len(self._numbers)))
        return self

    def query(self, *values: Any, **arguments: Any) -> Estimate:
        """The main question of all sketches, or with ``keys=[…]`` of some, as one ``Estimate``.

        Its fields are arrays in the order of the keys. ``values`` and ``arguments`` are those of
        the sketch's own ``query``. ``now=None`` asks each sketch at its own latest time, as
        ``bank[key].query()`` does; ``now="latest"`` asks all at the bank's. A sketch that has no
        answer has NaN, in the interval (−∞, ∞).

        Every other question of the sketch is a method of the bank in the same way; one that lists
        items gives a list for each key, or None.

        Examples
        --------
        >>> from recency import Bank, ExponentialHistogram
        >>> requests = Bank(ExponentialHistogram(window=3600))
        >>> requests.update_many(["web", "api", "web"], at=[10, 20, 30])
        >>> requests.query(15, now="latest").value.tolist()
        [1.0, 1.0]
        >>> requests.query(15, keys=["api"]).value.tolist()
        [1.0]
        """
        answer: Estimate = self._asked("query", values, arguments)
        return answer

    def __getattr__(self, name: str) -> Any:
        """A question of the sketches, as a method that asks all of them."""
        if name.startswith("_") or name == "prototype":  # not there yet, while a copy is made
            raise AttributeError(name)
        if name in questions_of(type(self.prototype)):
            return lambda *values, **arguments: self._asked(name, values, arguments)
        raise AttributeError(f"Bank of {type(self.prototype).__name__} has no {name!r}")

    def _asked(self, name: str, values: Any, arguments: dict[str, Any]) -> Any:
        keys = arguments.pop("keys", None)
        question = questions_of(type(self.prototype))[name]
        if arguments.get("now") == "latest":
            arguments["now"] = self.latest
        chosen = self._keyed
        if keys is not None:
            chosen = chosen.take(self._found(keys))
        return chosen.ask(question, *values, **arguments)

    def _found(self, keys: Any) -> Int64Array:
        if _is_one_key(keys):
            raise TypeError(f"keys must be a list or column of keys, got {type(keys).__name__}")
        different, which = distinct(keys)
        return np.array([self._known[key] for key in different], dtype=np.int64)[which]

    @property
    def latest(self) -> int | None:
        """The latest time that any sketch has seen, in ticks; None if none has seen anything."""
        tally = self._keyed.tally
        return int(tally.latest.max()) if tally.seen.any() else None

    def _number(self, keys: Any) -> Int64Array:
        """Numbers of keys; new ones are given out as keys come."""
        different, which = distinct(keys)
        known = self._known
        numbers = [known.setdefault(key, len(known)) for key in different]
        return np.array(numbers, dtype=np.int64)[which]

    @property
    def _known(self) -> dict[Hashable, int]:
        """Numbers of the keys that have rows.

        An update that was refused or interrupted may have left keys without rows.
        """
        numbers, size = self._numbers, len(self._keyed)
        if len(numbers) > size:
            for key in list(numbers)[size:]:
                numbers.pop(key, None)
        return numbers

    def __getitem__(self, key: Hashable) -> S:
        """The sketch of a key, on its own: a copy."""
        number = self._known[canonical(key)]
        return self.prototype._with(self._keyed.take(np.array([number])))

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
        """Keys and their sketches, which are copies."""
        sketches = (self.prototype._with(each) for each in self._keyed.split())
        yield from zip(self, sketches, strict=True)

    def to_bytes(self) -> dict[Hashable, bytes]:
        """``to_bytes`` of every sketch, in one pass."""
        return dict(zip(self, encode_keyed(self.prototype, self._keyed), strict=True))

    def __repr__(self) -> str:
        """The number of keys, and the class of the sketches."""
        return f"Bank({len(self)} × {type(self.prototype).__name__})"


def _is_one_key(keys: Any) -> bool:
    if isinstance(keys, Iterator | Set | Mapping | bytearray | memoryview):
        raise TypeError(
            f"keys must be a key, or a list or column of them, got {type(keys).__name__}"
        )
    return is_scalar(keys) or isinstance(keys, tuple)


def _rows(keys: Any, arguments: dict[str, Any]) -> int:
    columns = [column for column in arguments.values() if not is_scalar(column)]
    if _is_one_key(keys):
        return len(columns[0]) if columns else 1
    return len(keys)
