"""Leaves: what one Spark partition makes of its rows."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from recency.sketch import Sketch
from recency.spark.columns import arguments, chunks, number_rows, one_array

Mapper = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

CHUNK_BYTES = 1 << 26  # rows of groups that are worked in at once
COLUMN_BYTES = 1 << 27  # of sketches held before they are handed on
ORDER_BITS = 32  # of a leaf's order, below the partition


def one_leaf(prototype: Sketch, roles: tuple[str, ...], merge_levels: int) -> Mapper:
    """A mapper to (order, sketch): one row for a partition that has events."""

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained("sketch_df"):
            part = partition_id()
            sketch = prototype.empty_like(merge_levels, part)
            for batch in batches:
                if batch.num_rows:
                    sketch.update_many(**arguments(batch.columns, roles, unit_of(prototype)))
            if not sketch.is_empty:
                order = pa.array([part << ORDER_BITS], pa.int64())
                yield rows_of([order, _binary([sketch.to_bytes()])], ["order", "sketch"])

    return build


def group_leaves(
    prototype: Sketch, roles: tuple[str, ...], merge_levels: int, is_whole: bool
) -> Mapper:
    """A mapper to (groups…, order, done, sketch).

    A group has one row, or several if the sketches of all groups together outgrew the memory that
    is set aside for them. With ``is_whole``, a partition has all rows of its groups; sketches that
    nothing has to be merged with are finished and marked as done.
    """

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained("sketch_df"):
            first = partition_id() << ORDER_BITS
            column, groups, emitted = None, None, 0
            for table in chunks(batches, CHUNK_BYTES):
                if not table.num_rows:
                    continue
                if column is None:
                    column = prototype._column(merge_levels, first + emitted)
                    groups = table.select(range(len(roles), table.num_columns)).slice(0, 0)
                events = [one_array(each) for each in table.columns[: len(roles)]]
                known = pa.concat_tables(
                    [groups, table.select(range(len(roles), table.num_columns))]
                )
                numbers, firsts = number_rows([one_array(each) for each in known.columns])
                numbers, old = numbers[len(column) :], len(column)
                groups = pa.concat_tables([groups, known.take(firsts[old:])]).combine_chunks()
                column.extend(groups.num_rows)
                column.update_many(numbers, arguments(events, roles, unit_of(prototype)))
                if column.nbytes > COLUMN_BYTES:
                    yield from _leaf_rows(groups, first + emitted, column.frames(False), False)
                    emitted += len(column)
                    column = None
            if column is not None:
                done = is_whole and not emitted
                yield from _leaf_rows(groups, first + emitted, column.frames(done), done)

    return build


def _leaf_rows(
    groups: Any, order: int, frames: list[bytes], done: bool
) -> Iterator[pa.RecordBatch]:
    names = [*groups.column_names, "order", "done", "sketch"]
    keys = [one_array(each) for each in groups.columns]
    for begin in range(0, len(frames), ROWS_PER_BATCH):
        part = frames[begin : begin + ROWS_PER_BATCH]
        size = len(part)
        yield rows_of(
            [
                *(key.slice(begin, size) for key in keys),
                pa.array(range(order + begin, order + begin + size), pa.int64()),
                pa.array([done] * size, pa.bool_()),
                _binary(part),
            ],
            names,
        )


ROWS_PER_BATCH = 10_000


def rows_of(columns: list[Any], names: list[str]) -> pa.RecordBatch:
    """A batch of rows."""
    return pa.RecordBatch.from_arrays(columns, names)


def _binary(frames: list[bytes]) -> Any:
    return pa.array(frames, pa.binary())


def partition_id() -> int:
    """The number of the partition that this task works on."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def unit_of(prototype: Sketch) -> str | None:
    """The unit of its ticks."""
    unit: str | None = getattr(prototype.config, "unit", None)
    return unit


class explained:
    """Errors say which function they come from: on an executor nothing else would."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Add the name to errors in what was put in."""
        if isinstance(error, ValueError | TypeError):
            raise type(error)(f"{self._function}: {error}") from error
