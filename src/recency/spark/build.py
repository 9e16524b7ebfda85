"""Leaves: what one Spark partition makes of its rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from recency.column import Column
from recency.errors import CorruptSketchError, IncompatibleSketchError, OutOfOrderError
from recency.sketch import Sketch
from recency.spark.columns import arguments, chunks, number_rows, one_array

Mapper = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ORDER_BITS = 32  # of a leaf's order, below its partition
_ROWS_PER_BATCH, _BYTES_PER_BATCH = 10_000, 1 << 26  # that are handed on at once


@dataclass(frozen=True)
class Limits:
    """Memory that a task takes, roughly."""

    chunk: int = 1 << 26
    """Bytes of rows, or of sketches to merge, that are worked on at once."""
    sketches: int = 1 << 27
    """Bytes of the sketches of groups that are held before they are handed on."""


def one_leaf(prototype: Sketch, roles: tuple[str, ...], merge_levels: int) -> Mapper:
    """A mapper to (order, done, sketch): one row for a partition that has events."""

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained("sketch_df"):
            part = partition_id()
            sketch = prototype.empty_like(merge_levels, part)
            for batch in batches:
                if batch.num_rows:
                    sketch.update_many(**arguments(batch.columns, roles, prototype))
            if not sketch.is_empty:
                yield leaf_rows([], part << ORDER_BITS, [sketch.to_bytes()])

    return build


def group_leaves(
    prototype: Sketch,
    roles: tuple[str, ...],
    merge_levels: int,
    is_whole: bool,
    limits: Limits,
) -> Mapper:
    """A mapper to (groups…, order, done, sketch).

    A group has one row, or several if the sketches of all groups together outgrew the memory that
    is set aside for them. With ``is_whole``, a partition has all rows of its groups; sketches that
    nothing has to be merged with are finished and marked as done.
    """

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained("sketch_df"):
            order = partition_id() << ORDER_BITS
            sketches, is_first = Groups(prototype, merge_levels, order), True
            for table in chunks(batches, limits.chunk):
                sketches.update(table, roles)
                if sketches.nbytes > limits.sketches:
                    yield from sketches.rows(done=False)
                    order += len(sketches)
                    sketches, is_first = Groups(prototype, merge_levels, order), False
            yield from sketches.rows(done=is_whole and is_first)

    return build


class Groups:
    """The sketches of groups, which are rows of an Arrow table."""

    def __init__(self, prototype: Sketch, merge_levels: int, order: int) -> None:
        self._prototype, self._order = prototype, order
        self._column: Column = prototype._column(merge_levels, order)
        self._keys: Any = None

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._column)

    def update(self, table: Any, roles: tuple[str, ...]) -> None:
        """Take in rows: a column for each role, then the columns of the group."""
        keys = table.select(range(len(roles), table.num_columns))
        known = keys.slice(0, 0) if self._keys is None else self._keys
        keys = pa.concat_tables([known, keys])
        numbers, first_rows = number_rows([one_array(column) for column in keys.columns])
        self._keys = keys.take(first_rows).combine_chunks()
        self._column.extend(first_rows.size)
        events = [one_array(column) for column in table.columns[: len(roles)]]
        self._column.update_many(
            numbers[known.num_rows :], arguments(events, roles, self._prototype)
        )

    def rows(self, done: bool) -> Iterator[pa.RecordBatch]:
        """Groups and their sketches; what is ``done`` is finished, too."""
        if self._keys is None:
            return
        keys = [one_array(column) for column in self._keys.columns]
        frames = self._column.frames(finished=done)
        sizes = np.cumsum([len(frame) for frame in frames])
        begin = 0
        while begin < len(frames):
            before = sizes[begin - 1] if begin else 0
            end = int(np.searchsorted(sizes, before + _BYTES_PER_BATCH, side="right"))
            end = max(min(end, begin + _ROWS_PER_BATCH), begin + 1)
            groups = [key.slice(begin, end - begin) for key in keys]
            yield leaf_rows(groups, self._order + begin, frames[begin:end], done)
            begin = end

    @property
    def nbytes(self) -> int:
        """Memory that the sketches take, roughly."""
        return self._column.nbytes


def leaf_rows(
    keys: list[Any], order: int, frames: list[bytes], done: bool = False
) -> pa.RecordBatch:
    """Rows (keys…, order, done, sketch), in that order: names make no difference to Spark."""
    orders = pa.array(range(order, order + len(frames)), pa.int64())
    return key_rows([*keys, orders], frames, done)


def key_rows(keys: list[Any], frames: list[bytes], done: bool = False) -> pa.RecordBatch:
    """Rows (keys…, done, sketch)."""
    flags = pa.array([done] * len(frames), pa.bool_())
    columns = [*keys, flags, pa.array(frames, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def partition_id() -> int:
    """The number of the partition that this task works on."""
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


_OURS = (ValueError, TypeError, CorruptSketchError, IncompatibleSketchError, OutOfOrderError)


class explained:
    """Errors say which function they come from: on an executor nothing else would."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Add the name to errors in what was put in."""
        if error is not None and type(error) in _OURS:
            raise type(error)(f"{self._function}: {error}") from error
        if isinstance(error, Exception):
            error.add_note(f"in {self._function}")
