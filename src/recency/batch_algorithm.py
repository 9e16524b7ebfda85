"""Algorithms that leave little to write: most of the contract follows from the rest.

- :class:`BatchAlgorithm` is written for arrays alone; a single update is an array of one row.
- :class:`TallyAlgorithm` keeps a few numbers for each key and nothing else.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import NEVER, Admitted, Algorithm, Columns, PerKey, State
from recency.core.arrays import FloatArray, Int64Array
from recency.core.codec import RecordReader, RecordWriter, corrupt, float_bits, unzigzag, zigzag
from recency.keyed import is_scalar, only_key


class BatchAlgorithm(Algorithm):
    """An algorithm whose single updates are checked and let in as arrays of one row.

    ``check_row`` and ``stack`` follow from ``check`` and ``admit``, at the cost of some 40 µs for
    each update. For less, derive from :class:`Algorithm` and write both.
    """

    def check_row(self, tally: Any, last: Any, *arguments: Any) -> Admitted:
        """One row that is let in; its tally counts all rows up to it."""
        for place, argument in enumerate(arguments):
            if not is_scalar(argument):
                name = list(signature(self.check).parameters)[place + 1]
                raise TypeError(f"{name} must be a single value, got {type(argument).__name__}")
        columns = self.check(1, *arguments)
        return self.admit(tally if last is None else last.tally, only_key(1), columns)

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """The rows one after the other; the last one has counted all."""
        columns = tuple(map(np.concatenate, zip(*(row.columns for row in rows), strict=True)))
        return Admitted(rows[-1].tally, only_key(columns[0].size), columns)


@dataclass(frozen=True)
class NoBody:
    """The body of keys for which nothing is kept but their tally."""

    size: int
    """How many keys there are."""
    entries = nbytes = 0

    @classmethod
    def joined(cls, bodies: Sequence["NoBody"]) -> "NoBody":
        """The keys of several bodies one after the other."""
        return cls(sum(body.size for body in bodies))

    def take(self, keys: Int64Array) -> "NoBody":
        """The body of some of the keys."""
        return NoBody(keys.size)

    def split(self) -> list["NoBody"]:
        """A body for each key."""
        return [NoBody(1)] * self.size


class TallyAlgorithm(BatchAlgorithm):
    """An algorithm that keeps a tally for each key, and nothing else; merging is exact.

    To be written are ``tally``, :meth:`check`, :meth:`merge` and :meth:`flaw`. Rows come in by
    merging: ``check`` makes of each row the tally of a key that has seen this row alone, so its
    columns are the fields of ``tally``, in their order.
    """

    merge_law = "exact"

    tally: ClassVar[type[PerKey]]
    """The class of the tally. Its arrays are integers, floats or booleans."""

    relative_error: float = 0.0
    """The error that ``guarantee`` promises for every key."""

    @abstractmethod
    def flaw(self, tally: Any) -> str | None:
        """What no stream leads to in a tally that was read from bytes; None if all is well.

        All its keys have seen something.
        """

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """A tally whose fields have the values of ``start``; there is no body."""
        return State(self.tally.empty(size), NoBody(size))

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """The tally merged with those of the rows, of which nothing else is left to absorb."""
        joint = tally.joined([tally, self.tally(*columns)])
        into = np.concatenate([np.arange(tally.size), keys])
        merged = self.merge(State(joint, NoBody(joint.size)), into, tally.size)
        return Admitted(merged.tally, _NO_ROWS, (_NO_ROWS,))

    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> NoBody:
        """There is nothing to absorb."""
        return NoBody(state.tally.size)

    def guarantee(self, state: State) -> FloatArray:
        """``relative_error``, for every key."""
        return np.full(state.tally.size, self.relative_error)

    def write(self, state: State, writer: RecordWriter) -> None:
        """Whether anything was seen; if so, the fields of the tally."""
        seen = state.tally.seen
        writer.scalar(seen.astype(np.uint64))
        for field in fields(state.tally):
            column = getattr(state.tally, field.name)[seen]
            writer.ragged(_CODECS[column.dtype.kind][0](column), seen.astype(np.int64))

    def read(self, reader: RecordReader) -> State:
        """The inverse of :meth:`write`; refuses what has a :meth:`flaw`."""
        seen = reader.integer(1) == 1
        columns = []
        for start in vars(self.tally.empty(reader.size)).values():
            start[seen] = _CODECS[start.dtype.kind][1](reader.ragged(seen.astype(np.int64)))
            columns.append(start)
        tally = self.tally(*columns)
        if (tally.latest[seen] == NEVER).any():
            corrupt(reader.name, "the latest time is out of range")
        flaw = self.flaw(tally.take(np.flatnonzero(seen)))
        if flaw is not None:
            corrupt(reader.name, flaw)
        return State(tally, NoBody(reader.size))


_NO_ROWS = np.empty(0, dtype=np.int64)

_Convert = Callable[[NDArray[Any]], NDArray[Any]]
# Numbers of each kind as unsigned ones, and back. What does not fit is not what would be written,
# and is refused for that.
_CODECS: dict[str, tuple[_Convert, _Convert]] = {
    "i": (lambda x: zigzag(x.astype(np.int64)), unzigzag),
    "u": (lambda x: x.astype(np.uint64), lambda x: x),
    "b": (lambda x: x.astype(np.uint64), lambda x: x > 0),
    "f": (lambda x: float_bits(x.astype(np.float64)), lambda x: x.view(np.float64)),
}
