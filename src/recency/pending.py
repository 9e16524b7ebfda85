"""A buffer in front of a kernel, so that single updates cost no kernel call each."""

from typing import Any

import numpy as np

from recency.core.arrays import Int64Array


class Pending:
    """Columns of int64 that wait to be worked in, in the order in which they came."""

    def __init__(self, columns: int) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._blocks: list[tuple[Int64Array, ...]] = []
        self._columns = columns
        self.size = 0

    def add_row(self, *values: int) -> None:
        """One value for each column."""
        self._rows.append(values)
        self.size += 1

    def add_block(self, *arrays: Int64Array) -> None:
        """An array for each column, all of one length. They are kept, so they must not change."""
        self._close_rows()
        self._blocks.append(arrays)
        self.size += arrays[0].size

    def take(self) -> tuple[Int64Array, ...]:
        """All that waits, column by column; nothing waits afterwards."""
        self._close_rows()
        blocks, self._blocks, self.size = self._blocks, [], 0
        if len(blocks) == 1:
            return blocks[0]
        return tuple(np.concatenate(column) for column in zip(*blocks, strict=True))

    def _close_rows(self) -> None:
        if self._rows:
            rows: Any = np.array(self._rows, dtype=np.int64).reshape(-1, self._columns)
            self._blocks.append(tuple(rows.T))
            self._rows = []
