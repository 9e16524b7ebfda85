"""From Arrow to what sketches take: no Python object per row."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from recency.core.arrays import Int64Array
from recency.timeunit import to_ticks


def to_column(column: Any, unit: str | None, role: str) -> Any:
    """One column without NULLs. Points in time become ticks, whatever the session's time zone.

    Spark sends timestamps as microseconds since 1970 in UTC, those without a zone as if in UTC.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return to_ticks(column.to_numpy(zero_copy_only=False), unit, role)
    if pa.types.is_decimal(kind):
        try:
            return column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            raise ValueError(
                f"{role} must be in the range of int64, got a larger decimal"
            ) from None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.to_numpy()
    return column  # strings and bytes are hashed as they are


def chunks(
    batches: Iterable[pa.RecordBatch], most_bytes: int, per_row: int = 0
) -> Iterator[pa.Table]:
    """Batches put together until they are large enough to be worth a kernel call, or cut in halves.

    What a row takes besides its bytes, once it is worked on, counts as ``per_row``.
    """
    buffered: list[pa.RecordBatch] = []
    size = 0

    def pieces(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
        if not batch.num_rows:
            return
        cost = batch.nbytes + per_row * batch.num_rows
        if cost <= 2 * most_bytes or batch.num_rows < 2:
            yield batch, cost
        else:
            half = batch.num_rows // 2
            yield from pieces(batch.slice(0, half))
            yield from pieces(batch.slice(half))

    for batch in batches:
        for piece, cost in pieces(batch):
            buffered.append(piece)
            size += cost
            if size >= most_bytes:
                yield pa.Table.from_batches(buffered)
                buffered, size = [], 0
    if buffered:
        yield pa.Table.from_batches(buffered)


def one_array(column: pa.ChunkedArray) -> Any:
    """The column of a table in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def number_rows(columns: Sequence[Any]) -> tuple[Int64Array, Int64Array]:
    """Number distinct rows 0, 1, … as they first come, and say where; NULL is a value like any."""
    numbers = _codes(columns[0])
    for column in columns[1:]:
        more = _codes(column)
        numbers = _codes(pa.array(numbers * (int(more.max(initial=0)) + 1) + more))
    highest = np.maximum.accumulate(numbers)
    is_first = np.ones(numbers.size, dtype=np.bool_)
    is_first[1:] = numbers[1:] > highest[:-1]
    return numbers, np.flatnonzero(is_first)


def _codes(column: Any) -> Int64Array:
    indices = column.dictionary_encode(null_encoding="encode").indices
    codes: Int64Array = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
