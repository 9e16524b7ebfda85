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
    """One sketch per key, all of one configuration; one kernel call updates all of them.

    ``bank[key]`` has the same bytes as a sketch ``prototype.empty_like(stream=n)`` that gets the
    updates of that key, if the key was the n-th new one, counted from 0 (plus the bank's
    ``stream``).

    A key is the same whether it came in a list, an array, or a column of pandas or Arrow. Keys are
    equal as in a dict: 1, 1.0 and True are one key. NumPy's and Arrow's scalars are converted to
    Python values, missing values of all kinds to None, and all NaN are one key. Times become naive
    ``datetime``s, or ``datetime``s in UTC if they have a zone; a date becomes its midnight, and a
    duration a ``timedelta``. See :mod:`recency.keys`.

    Parameters
    ----------
    prototype
        An empty sketch with the configuration of all sketches of the bank.
    merge_levels
        As in :meth:`Sketch.empty_like <recency.Sketch.empty_like>`, for all sketches of the bank.
    stream
        Stream number of the first key; each further key gets the next number. Banks that are built
        separately and merged later need ranges of numbers that do not overlap.

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
        """Return a bank of stored sketches, given the bytes of each key.

        Parameters
        ----------
        frames
            For each key what ``to_bytes`` returned, all of one configuration.
        prototype
            An empty sketch of that configuration. Only required if ``frames`` is empty.

        Raises
        ------
        CorruptSketchError
            If the bytes of a key are not a sketch.
        IncompatibleSketchError
            If configurations differ.
        ValueError
            If two keys are equal, or if there are neither frames nor a prototype.
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
        """Add one event per row to the sketch of its key; new keys get new sketches.

        If the call raises or is interrupted, the bank is as before.

        Parameters
        ----------
        keys
            A key for each row, or one key for all rows.
        values, columns
            The arguments of the sketch's own ``update_many``.
        """
        arguments = signature(self.prototype.update_many).bind(*values, **columns).arguments
        size = _rows(keys, arguments)
        if not size:
            keys = []
        numbers = self._number([keys] if _is_one_key(keys) else keys)
        self._keyed.update_many(np.broadcast_to(numbers, size), arguments, len(self._numbers))

    def merge(self, other: "Bank[S]") -> "Bank[S]":
        """Add the sketches of another bank, key by key, in place; ``other`` is not changed.

        Returns this bank. Different configurations are an ``IncompatibleSketchError``.
        """
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
        """Ask the main question of all sketches, or of some.

        Every other question of the sketch is a method of the bank in the same way. A question that
        returns a list, such as ``heavy_hitters``, returns one list per key, or None for a key that
        has no answer.

        Parameters
        ----------
        values, arguments
            The arguments of the sketch's own ``query``. ``now=None`` asks each sketch at its own
            latest time, as ``bank[key].query()`` does; ``now="latest"`` asks all sketches at the
            latest time of the bank.
        keys
            By name: a list or column of the keys to ask. By default all, in the order of the bank.

        Returns
        -------
        Estimate
            Its fields are arrays with one element per key, in the order of ``keys``. A key that has
            no answer has the value NaN and the interval (−∞, ∞).

        Raises
        ------
        KeyError
            If one of ``keys`` is not in the bank.

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
        """Return a question of the sketches as a method of the bank."""
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
        """The latest time that any sketch has seen, in ticks; None if all are empty."""
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
        """Return a copy of the sketch of a key; an unknown key is a ``KeyError``."""
        number = self._known[canonical(key)]
        return self.prototype._with(self._keyed.take(np.array([number])))

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._known)

    def __contains__(self, key: object) -> bool:
        """Return whether the bank has a sketch for the key."""
        return canonical(key) in self._known

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over keys, in the order in which they were first seen."""
        return iter(self._known)

    def items(self) -> Iterator[tuple[Hashable, S]]:
        """Iterate over pairs of a key and a copy of its sketch."""
        sketches = (self.prototype._with(each) for each in self._keyed.split())
        yield from zip(self, sketches, strict=True)

    def to_bytes(self) -> dict[Hashable, bytes]:
        """Return ``to_bytes()`` of every sketch, by key."""
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
