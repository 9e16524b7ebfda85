"""Merging sketches up a tree, group by group."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recency.sketch import Sketch, decode_many, encode_many, merge_all
from recency.spark.build import CHUNK_BYTES, ORDER_BITS, Mapper, explained, rows_of
from recency.spark.columns import chunks, number_rows, one_array

FAN_IN_BITS = 5  # a node merges the leaves of up to 32 partitions


def with_node(leaves: DataFrame, level: int) -> DataFrame:
    """Leaves with the number of the node that merges them."""
    node = F.shiftright(F.col("order"), ORDER_BITS + FAN_IN_BITS * level)
    return leaves.withColumn("node", node)


def merge_rows(keys: int, prototype: Sketch | None, finish: bool, function: str) -> Mapper:
    """A mapper from rows (keys…, order, done, sketch), sorted, to one row (keys…, order, sketch).

    ``order`` is that of a group's first row. Sketches marked as done go through unread.
    """

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            open_group: pa.Table | None = None  # rows that the next batch may add to
            for table in chunks(batches, CHUNK_BYTES):
                table = table if open_group is None else pa.concat_tables([open_group, table])
                if table.num_rows:
                    numbers, firsts = number_rows([one_array(c) for c in table.columns[:keys]])
                    yield from merged(table.slice(0, int(firsts[-1])), numbers, firsts[:-1])
                    open_group = _compacted(table.slice(int(firsts[-1])))
            if open_group is not None:
                numbers, firsts = number_rows([one_array(c) for c in open_group.columns[:keys]])
                yield from merged(open_group, numbers, firsts)

    def merged(table: Any, numbers: Any, firsts: Any) -> Iterator[pa.RecordBatch]:
        if not table.num_rows:
            return
        frames = table["sketch"].to_pylist()
        done = table["done"].to_numpy()
        results = [frames[first] for first in firsts]
        todo = [i for i, first in enumerate(firsts) if not done[first]]
        ends = [*firsts[1:], table.num_rows]
        sketches = decode_many(frame for i in todo for frame in frames[firsts[i] : ends[i]])
        position = 0
        merged_sketches = []
        for i in todo:
            size = int(ends[i] - firsts[i])
            merged_sketches.append(merge_all(sketches[position : position + size]))
            position += size
        if finish and prototype is not None:
            for sketch in merged_sketches:
                sketch._finish(prototype)
        for i, frame in zip(todo, encode_many(merged_sketches), strict=True):
            results[i] = frame
        rows = table.select(range(keys + 1)).take(firsts).combine_chunks()
        columns = [one_array(each) for each in rows.columns]
        yield rows_of(
            [*columns, pa.array([False] * len(results)), pa.array(results, pa.binary())],
            table.column_names,
        )

    return merge


def _compacted(table: Any) -> Any:
    """Rows of one group, fewer if merging them costs no accuracy and they take much memory."""
    if table.nbytes < CHUNK_BYTES or table.num_rows < 2:
        return table
    sketches = decode_many(table["sketch"].to_pylist())
    if sketches[0].merge_law != "exact":
        return table
    frame = merge_all(sketches).to_bytes()
    first = table.slice(0, 1)
    position = table.column_names.index("sketch")
    return first.set_column(position, "sketch", pa.array([frame], pa.binary()))


def merge_partition(function: str) -> Mapper:
    """A mapper from rows (order, done, sketch) to fewer of them, where merging is exact.

    Where it is not, they go on as they are: they will be merged together, at the cost of one level.
    """

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            running: list[Sketch] = []
            for table in chunks(batches, CHUNK_BYTES):
                frames = table["sketch"].to_pylist()
                orders = table["order"].to_pylist()
                sketches = decode_many(frames)
                if sketches and sketches[0].merge_law == "exact":
                    running = [merge_all([*running, *sketches])]
                elif sketches:
                    merge_all([sketches[0].empty_like(), *(s.empty_like() for s in sketches)])
                    yield _orders_and_frames(orders, frames)
            if running:
                yield _orders_and_frames([0], [running[0].to_bytes()])

    return merge


def _orders_and_frames(orders: list[int], frames: list[bytes]) -> pa.RecordBatch:
    return rows_of(
        [pa.array(orders, pa.int64()), pa.array(frames, pa.binary())], ["order", "sketch"]
    )


def merge_on_driver(rows: Iterable[Any]) -> Sketch | None:
    """The sketch of all rows (order, sketch), None if there are none."""
    ordered = sorted(rows, key=lambda row: row["order"])
    return merge_all(decode_many(row["sketch"] for row in ordered)) if ordered else None
