"""The state of n keys of one configuration, with a buffer in front: the one mutable object.

Everything that changes is one reference, ``_data``. A public call computes values and ends by
setting it, or by appending one row to a list, so that whatever interrupts a call leaves the state
as it was before it, or as it is after it. Absorbing buffered rows sooner or later has no effect on
the state, so reading from several threads is safe while none writes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import Admitted, Algorithm, Columns, State, View
from recency.core import validate
from recency.core.arrays import Int64Array, broadcast, memory_of
from recency.core.codec import RecordReader, RecordWriter
from recency.errors import NoAnswerError
from recency.estimate import Estimate

_ROWS = 4096  # single rows that are kept as tuples; arrays take a sixth of their memory
_LEAST_BUFFER = 256
_ZERO = np.asarray(np.int64(0))


class _Data(NamedTuple):
    """The tally counts all rows but the single ones; the body has those that were absorbed."""

    tally: Any
    body: Any
    buffer: Columns  # of rows, up to ``buffered``; then, if there are several, their keys
    buffered: int
    rows: list[Any]  # single updates, which came after those in the buffer
    is_current: bool  # whether the body has left behind what the clock of the tally has


def _absorbed(state: State) -> _Data:
    return _Data(state.tally, state.body, (), 0, [], True)


class Keyed:
    """n keys, numbered from 0."""

    def __init__(
        self, algorithm: Algorithm, size: int, merge_levels: int = 0, first_stream: int = 0
    ) -> None:
        self.algorithm = algorithm
        self._merge_levels, self._first_stream = merge_levels, first_stream
        self._data = _absorbed(algorithm.empty(size, merge_levels, first_stream))

    @classmethod
    def of(cls, algorithm: Algorithm, state: State) -> "Keyed":
        """The keys of a state, with nothing buffered."""
        keyed = cls.__new__(cls)
        keyed.algorithm = algorithm
        keyed._merge_levels = keyed._first_stream = 0
        keyed._data = _absorbed(state)
        return keyed

    @classmethod
    def from_records(cls, algorithm: Algorithm, reader: RecordReader) -> "Keyed":
        """A key for each record that the reader has."""
        keyed = cls.of(algorithm, algorithm.read(reader))
        reader.finish(keyed.records())
        return keyed

    def __len__(self) -> int:
        """How many keys there are."""
        return int(self._data.tally.size)

    @property
    def tally(self) -> Any:
        """The tally, single updates included."""
        if self._data.rows:
            self._data = self._stacked(self._data)
        return self._data.tally

    def add_row(self, *arguments: Any) -> None:
        """One update of a single key."""
        data = self._data
        if len(data.rows) >= _ROWS:
            self._data = data = self._stacked(data)
        rows, algorithm = data.rows, self.algorithm
        row = algorithm.check_row(data.tally, rows[-1] if rows else None, *arguments)
        if algorithm.may_refuse and algorithm.may_refuse(data.tally, data.body, len(rows) + 1):
            self._data = self._stacked(data._replace(rows=[*rows, row]))
        else:
            rows.append(row)

    def update_many(
        self, keys: Int64Array | None, arguments: Mapping[str, Any], size: int = 1
    ) -> None:
        """Rows for these keys (None: for the only one); there are ``size`` keys then, or more."""
        if keys is not None:
            check_lengths(keys.size, arguments)
        columns = self.algorithm.check(None if keys is None else keys.size, **arguments)
        rows = columns[0].size
        if keys is None:
            keys = only_key(rows)
        self._make_room(rows)
        data = self._stacked(self._extended(size))
        if rows:
            data = self._taken_in(data, self.algorithm.admit(data.tally, keys, columns))
        self._data = data

    def state(self) -> State:
        """The state, all rows absorbed."""
        data = self._data
        if data.rows or not data.is_current:
            self._data = data = self._flushed(self._stacked(data))
        return State(data.tally, data.body)

    def view(self) -> View:
        """What a question sees: the state, or what answers as it does while few rows are buffered.

        So a question after every update does not absorb rows one by one.
        """
        self._data = data = self._stacked(self._data)
        few = data.buffered <= self.algorithm.preview_rows and data.tally.size == 1
        if data.is_current or not few:
            return View(self.algorithm, self.state())
        columns = tuple(column[: data.buffered] for column in data.buffer)
        body = self.algorithm.preview(State(data.tally, data.body), columns)
        return View(self.algorithm, State(data.tally, body))

    def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        """The answers of a declared question: an estimate of arrays, or a list for all keys.

        A key without an answer has NaN in (−∞, ∞), or None.
        """
        if not len(self):
            return _together([]) if question.gives in ("estimate", "estimates") else []
        if not question.is_per_key:
            try:
                return question.answer(self.view(), *args, **kwargs)
            except NoAnswerError:  # of a single key
                return _NO_ANSWER
        answers: list[Any] = []
        for one in self.split():
            try:
                answers.append(question.answer(one.view(), *args, **kwargs))
            except NoAnswerError:
                answers.append(None)
        return _together(answers) if question.gives == "estimate" else answers

    def take(self, keys: Int64Array) -> "Keyed":
        """A copy of some of the keys."""
        tally, body = self.state()
        return Keyed.of(self.algorithm, State(tally.take(keys), body.take(keys)))

    def split(self) -> list["Keyed"]:
        """A ``Keyed`` of one key for each key."""
        tally, body = self.state()
        return [
            Keyed.of(self.algorithm, State(*each))
            for each in zip(tally.split(), body.split(), strict=True)
        ]

    def merged(self, into: Int64Array, size: int) -> "Keyed":
        """``size`` keys, where key i of these is merged into key ``into[i]``."""
        return Keyed.of(self.algorithm, self.algorithm.merge(self.state(), into, size))

    def finalized(self, prototype: "Keyed") -> "Keyed":
        """The keys as a user of the prototype expects them."""
        return Keyed.of(self.algorithm, self.algorithm.finalize(self.state(), prototype.state()))

    def become(self, other: "Keyed") -> None:
        """Take over the state of others of the same configuration."""
        self._data = _absorbed(other.state())

    def records(self) -> RecordWriter:
        """The state as bytes: a record for each key."""
        writer = RecordWriter(len(self))
        self.algorithm.write(self.state(), writer)
        return writer

    @property
    def nbytes(self) -> int:
        """The memory that is held, in bytes, roughly."""
        data = self._data
        return int(data.body.nbytes) + memory_of(*data.buffer) + 48 * len(self)

    def _room(self, data: _Data) -> int:
        """How many rows are buffered at most."""
        return int(max(self.algorithm.flush_rows, data.body.entries, data.tally.size))

    def _make_room(self, size: int) -> None:
        """Absorb buffered rows if ``size`` more do not fit, and keep the memory of the buffer.

        It is not in use from then on, and only from then on: rows that are written into it do not
        touch any others if they are interrupted.
        """
        data = self._data
        if data.buffered and data.buffered + size > self._room(data):
            tally, body = self.state()
            self._data = _Data(tally, body, data.buffer, 0, [], True)

    # --- values of _data, none of which is in place yet ---

    def _extended(self, size: int) -> _Data:
        """The data with empty keys up to number ``size`` - 1."""
        data = self._data
        more = size - data.tally.size
        if more <= 0:
            return data
        if data.tally.size == 1:  # its rows are buffered without their key
            data = self._flushed(data)
        first = self._first_stream + data.tally.size
        new = self.algorithm.empty(more, self._merge_levels, first)
        return data._replace(
            tally=data.tally.joined([data.tally, new.tally]),
            body=data.body.joined([data.body, new.body]),
            buffer=data.buffer if data.buffered else (),
        )

    def _stacked(self, data: _Data) -> _Data:
        """The data with single updates moved to the buffer."""
        if not data.rows:
            return data
        without = _Data(data.tally, data.body, data.buffer, data.buffered, [], data.is_current)
        return self._taken_in(without, self.algorithm.stack(data.tally, data.rows))

    def _taken_in(self, data: _Data, admitted: Admitted) -> _Data:
        """The data with more rows in the buffer, or absorbed if there are many."""
        tally, keys, columns = admitted
        size = keys.size
        may_refuse = self.algorithm.may_refuse
        room = size if may_refuse and may_refuse(tally, data.body, 0) else self._room(data)
        if data.buffered and data.buffered + size > room:
            data = self._flushed(data)
        if size >= room:
            body = self.algorithm.absorb(State(tally, data.body), keys, columns)
            return _absorbed(State(tally, body))
        if tally.size > 1:
            columns = (*columns, keys)
        begin, end = data.buffered, data.buffered + size
        buffer = data.buffer or tuple(np.empty(0, dtype=column.dtype) for column in columns)
        if end > buffer[0].size:
            capacity = max(_LEAST_BUFFER, end + end // 2)
            buffer = tuple(_grown(column, begin, capacity) for column in buffer)
        for stored, column in zip(buffer, columns, strict=True):
            stored[begin:end] = column
        return _Data(tally, data.body, buffer, end, data.rows, False)

    def _flushed(self, data: _Data) -> _Data:
        """The data with buffered rows absorbed, and without what the clock has left behind."""
        if data.is_current:
            return data
        columns = tuple(column[: data.buffered] for column in data.buffer)
        keys = only_key(data.buffered)
        if data.tally.size > 1:
            keys, columns = columns[-1], columns[:-1]
        body = self.algorithm.absorb(State(data.tally, data.body), keys, columns)
        return _absorbed(State(data.tally, body))


def only_key(size: int) -> Int64Array:
    """The column of keys of ``size`` rows, where there is just one key: zeros."""
    return broadcast(_ZERO, size)


_NO_ANSWER = Estimate(*(np.array([end]) for end in (np.nan, -np.inf, np.inf)))


def _together(answers: Sequence[Estimate | None]) -> Estimate:
    """Estimates of single keys as one estimate of arrays."""
    rows = [vars(_NO_ANSWER if each is None else each).values() for each in answers]
    fields = zip(*rows, strict=True) if rows else [()] * 4
    return Estimate(*(np.array([np.ravel(x)[0] for x in field]) for field in fields))


def _grown(column: NDArray[Any], used: int, capacity: int) -> NDArray[Any]:
    larger = np.empty(capacity, dtype=column.dtype)
    larger[:used] = column[:used]
    return larger


def joined(keyed: Sequence[Keyed]) -> Keyed:
    """All keys of several of one configuration, in order."""
    if len(keyed) == 1:
        return keyed[0]
    tallies, bodies = zip(*(each.state() for each in keyed), strict=True)
    state = State(tallies[0].joined(tallies), bodies[0].joined(bodies))
    return Keyed.of(keyed[0].algorithm, state)


def check_lengths(size: int, arguments: Mapping[str, Any]) -> None:
    """Refuse columns that do not have one value for each of ``size`` rows."""
    for name, values in arguments.items():
        if not is_scalar(values) and len(values) != size:
            raise ValueError(
                f"keys and {name} must have the same length, got {size} and {len(values)}"
            )


def is_scalar(values: Any) -> bool:
    """Whether an argument of ``update_many`` is one value, broadcast to all rows."""
    return values is None or validate.is_scalar(values)
