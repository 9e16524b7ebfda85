"""Merging sketches up a tree, group by group."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from recency.sketch import Sketch, decode_many, encode_many, foreign_classes, merge_all
from recency.spark.build import Limits, Mapper, explained, key_rows, leaf_rows
from recency.spark.columns import chunks, number_rows, one_array


def merge_rows(
    keys: int, prototype: Sketch | None, finish: bool, function: str, limits: Limits
) -> Mapper:
    """A mapper of rows (keys…, order, done, sketch), sorted, to one row for each key.

    Each group is one ``merge_all``, in the order of ``order``, and keeps that of its first row.
    Those marked as done go through unread. The prototype is that of the sketches, if it is known.
    """
    cls = None if prototype is None else type(prototype)

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            last_group: Any = None  # the next batch may have more of it
            for table in chunks(batches, limits.chunk):
                rows = table if last_group is None else pa.concat_tables([last_group, table])
                _, starts = number_rows([one_array(each) for each in rows.columns[:keys]])
                if starts.size:
                    end = int(starts[-1])
                    yield from merged(rows.slice(0, end), starts[:-1].tolist())
                    last_group = _compacted(rows.slice(end), limits.chunk)
            if last_group is not None:
                yield from merged(last_group, [0])

    def merged(rows: Any, starts: list[int]) -> Iterator[pa.RecordBatch]:
        if not starts:
            return
        *columns, done, sketches = rows.columns
        frames = sketches.to_pylist()
        results = [frames[start] for start in starts]
        is_done = done.to_numpy()
        ends = [*starts[1:], rows.num_rows]
        open_ = [i for i, start in enumerate(starts) if not is_done[start]]
        read = iter(decode_many(frame for i in open_ for frame in frames[starts[i] : ends[i]]))
        groups = [merge_all(islice(read, ends[i] - starts[i])) for i in open_]
        if prototype is not None and finish:
            for sketch in groups:
                sketch._finish(prototype)
        for i, frame in zip(open_, encode_many(groups), strict=True):
            results[i] = frame
        yield key_rows([one_array(column.take(starts)) for column in columns], results)

    return _knowing(cls, merge)


def _knowing(cls: type[Sketch] | None, mapper: Mapper) -> Mapper:
    """The mapper, and with it the class that its workers need to read sketches.

    Which one that is cannot be told for stored sketches: then all that users have defined go along,
    each on its own, so that one that cannot be sent or received harms none but its own sketches.
    """
    pickled = [] if cls is not None else list(_pickled(foreign_classes()))

    def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in pickled:
            with suppress(Exception):
                cloudpickle.loads(each)
        assert cls is None or cls.family  # to be unpickled is all that it is for
        return mapper(batches)

    return mapped


def _pickled(classes: Iterable[type[Sketch]]) -> Iterator[bytes]:
    for each in classes:
        with suppress(Exception):
            pickled: bytes = cloudpickle.dumps(each)  # type: ignore[no-untyped-call]
            yield pickled


def _compacted(rows: Any, most_bytes: int) -> Any:
    """Rows of one group, made one if that costs no accuracy and they take much memory."""
    if rows.nbytes < most_bytes or rows.num_rows < 2:
        return rows
    sketches = decode_many(rows.columns[-1].to_pylist())
    if sketches[0].merge_law != "exact":
        return rows
    last = rows.num_columns - 1
    field = rows.field(last)
    frame = pa.array([merge_all(sketches).to_bytes()], field.type)
    return rows.slice(0, 1).set_column(last, field, frame)


def merge_partition(function: str, limits: Limits) -> Mapper:
    """A mapper of rows (order, done, sketch) to one for each partition, where merging is exact.

    Where it is not, they go on as they are: to be merged all together, at the cost of one level.
    """

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            running: list[Sketch] = []
            for table in chunks(batches, limits.chunk):
                orders, _, frames = (column.to_pylist() for column in table.columns)
                sketches = decode_many(frames)
                for first, other in pairwise([*running, *sketches]):
                    first._check_mergeable(other)
                if sketches and sketches[0].merge_law == "exact":
                    running = [merge_all([*running, *sketches])]
                elif sketches:
                    yield key_rows([pa.array(orders, pa.int64())], frames)
            if running:
                yield leaf_rows([], 0, [running[0].to_bytes()])

    return _knowing(None, merge)


def merge_on_driver(rows: Iterable[Any], function: str) -> Sketch | None:
    """The sketch of all rows (order, done, sketch), None if there are none."""
    with explained(function):
        ordered = sorted(rows, key=lambda row: row["order"])
        return merge_all(decode_many(row["sketch"] for row in ordered)) if ordered else None
    return None
