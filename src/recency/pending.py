"""A buffer in front of a kernel, so that small updates do not cost a kernel call each."""

import numpy as np
from numpy.typing import ArrayLike

from recency.core.arrays import Int64Array

_ROWS = 4096  # single rows that wait as they came; an array takes a sixth of their memory


class Pending:
    """Columns of int64 that wait to be worked in, in the order in which they came."""

    def __init__(self, columns: int) -> None:
        self._buffer = np.empty((columns, 0), dtype=np.int64)
        self._stored = 0
        self._rows: list[tuple[int, ...]] = []

    @property
    def size(self) -> int:
        """How many rows wait."""
        return self._stored + len(self._rows)

    def add_row(self, *values: int) -> None:
        """One value for each column."""
        self._rows.append(values)
        if len(self._rows) >= _ROWS:
            self._store_rows()

    def add_block(self, *columns: ArrayLike, size: int) -> None:
        """``size`` rows: an array or a scalar for each column."""
        self._store_rows()
        self._store(columns, size)

    def take(self) -> tuple[Int64Array, ...]:
        """All that waits, column by column, to be used before anything else is added."""
        columns = self.look()
        self.clear()
        return columns

    def look(self) -> tuple[Int64Array, ...]:
        """The same, and it goes on waiting until :meth:`clear`."""
        self._store_rows()
        return tuple(self._buffer[:, : self._stored])

    def clear(self) -> None:
        """Nothing waits any more."""
        self._stored = 0

    def release(self) -> None:
        """Give back the memory of an empty buffer: a sketch that is asked is not being fed."""
        self._buffer = np.empty((self._buffer.shape[0], 0), dtype=np.int64)

    def _store_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._store(np.array(rows, dtype=np.int64).T, len(rows))

    def _store(self, columns: "tuple[ArrayLike, ...] | Int64Array", size: int) -> None:
        end = self._stored + size
        if end > self._buffer.shape[1]:
            grown = np.empty((self._buffer.shape[0], end + end // 4), dtype=np.int64)
            grown[:, : self._stored] = self._buffer[:, : self._stored]
            self._buffer = grown
        for row, column in zip(self._buffer, columns, strict=True):
            row[self._stored : end] = column
        self._stored = end
