"""Merging sketches up a tree, group by group."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from recency.serialization import encode_keyed, foreign_classes, loads, merge_frames, read_frames
from recency.sketch import Sketch
from recency.spark.build import Job, Limits, Mapper, explained, key_rows, leaf_rows
from recency.spark.columns import chunks, number_rows, one_array

_SKETCH = 256  # bytes of a frame that take as much memory as a sketch does besides its contents


def merge_rows(
    keys: int, jobs: Sequence[Job], function: str, limits: Limits, last: bool = False
) -> Mapper:
    """A mapper of rows (keys…, which, order, done, sketch), sorted, to one for each key and which.

    Each is one ``merge_all``, in the order of ``order``, and keeps that of its first row. Those
    marked as done go through unread. The jobs are those of the sketches, if they are known.

    With ``last``, sketches are finished, and there is one row for each key: (keys…, sketch…), with
    a sketch for each job, or one if they are not known.
    """
    prototypes = [job.prototype for job in jobs]

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            last_group: Any = None  # the next batch may have more of it
            most_bytes = limits.here().frames
            for table in chunks(batches, most_bytes, _SKETCH):
                rows = table if last_group is None else pa.concat_tables([last_group, table])
                _, starts = number_rows([one_array(each) for each in rows.columns[:keys]])
                if starts.size:
                    end = int(starts[-1])
                    yield from merged_rows(rows.slice(0, end))
                    last_group = _compacted(rows.slice(end), keys + 1, most_bytes)
            if last_group is not None:
                yield from merged_rows(last_group)

    def merged_rows(rows: Any) -> Iterator[pa.RecordBatch]:
        if not rows.num_rows:
            return
        *columns, done, sketches = rows.columns
        _, firsts = number_rows([one_array(each) for each in columns[: keys + 1]])
        starts = firsts.tolist()
        frames = sketches.to_pylist()
        results = [frames[start] for start in starts]
        is_done = done.to_numpy()[starts]
        targets = np.flatnonzero(~is_done)
        sizes = np.diff([*starts, rows.num_rows])
        open_ = np.flatnonzero(np.repeat(~is_done, sizes))
        into = np.repeat(np.arange(targets.size), sizes[targets])
        which = columns[keys].to_numpy()[starts][targets] if last and jobs else None
        merged = merge_frames([frames[i] for i in open_], into, targets.size, prototypes, which)
        for i, frame in zip(targets.tolist(), merged, strict=True):
            results[i] = frame
        columns = [one_array(column.take(starts)) for column in columns]
        yield wide(columns, results) if last else key_rows(columns, results)

    def wide(columns: list[Any], frames: list[bytes]) -> pa.RecordBatch:
        """A row for each key, with its sketches side by side; prototypes where it has no events."""
        which = columns[keys].to_numpy()
        numbers, firsts = number_rows(columns[:keys])
        empty = [prototype.to_bytes() for prototype in prototypes] or [b""]
        table = [[frame] * firsts.size for frame in empty]
        for i, frame in enumerate(frames):
            table[which[i]][numbers[i]] = frame
        arrays = [column.take(pa.array(firsts)) for column in columns[:keys]]
        arrays += [pa.array(each, pa.binary()) for each in table]
        return pa.RecordBatch.from_arrays(arrays, [str(i) for i in range(len(arrays))])

    return _knowing([type(job.prototype) for job in jobs], merge)


def _knowing(classes: Sequence[type[Sketch]], mapper: Mapper) -> Mapper:
    """The mapper, and with it the classes that its workers need to read sketches."""
    know = None if classes else knowing_all()

    def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert all(cls.family for cls in classes)  # to be unpickled is all that they are for
        if know is not None:
            know()
        return mapper(batches)

    return mapped


def knowing_all() -> Callable[[], None]:
    """Something to call on a worker, so that it can read any sketch that can be read here.

    Which classes stored sketches have cannot be told: all that users have defined go along, each on
    its own, so that one that cannot be sent or received harms none but its own sketches.
    """
    pickled = list(_pickled(foreign_classes()))

    def know() -> None:
        while pickled:
            with suppress(Exception):
                cloudpickle.loads(pickled.pop())

    return know


def _pickled(classes: Iterable[type[Sketch]]) -> Iterator[bytes]:
    for each in classes:
        with suppress(Exception):
            pickled: bytes = cloudpickle.dumps(each)  # type: ignore[no-untyped-call]
            yield pickled


def _compacted(rows: Any, keys: int, most_bytes: int) -> Any:
    """Rows of one group, made fewer if that costs no accuracy and they take much memory."""
    if rows.nbytes < most_bytes:
        return rows
    _, starts = number_rows([one_array(each) for each in rows.columns[:keys]])
    if starts.size == rows.num_rows:
        return rows
    parts = []
    last = rows.num_columns - 1
    for begin, end in pairwise([*starts.tolist(), rows.num_rows]):
        part = rows.slice(begin, end - begin)
        merged = _merged_if_exact(part.columns[-1].to_pylist())
        if merged is not None:
            field = rows.field(last)
            part = part.slice(0, 1).set_column(last, field, pa.array([merged], field.type))
        parts.append(part)
    return pa.concat_tables(parts)


def _merged_if_exact(frames: list[bytes]) -> bytes | None:
    """One sketch of all, if that costs no accuracy; refuses those that do not merge."""
    groups = read_frames(frames)
    for group in groups:
        groups[0].prototype._check_mergeable(group.prototype)
    prototype, keyed, _ = groups[0]
    if prototype.merge_law != "exact":
        return None
    return encode_keyed(prototype, keyed.merged(np.zeros(len(keyed), dtype=np.int64), 1))[0]


def merge_partition(function: str, limits: Limits) -> Mapper:
    """A mapper of rows (order, done, sketch) to one for each partition, where merging is exact.

    Where it is not, they go on as they are: to be merged all together, at the cost of one level.
    """

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            running: list[bytes] = []
            for table in chunks(batches, limits.here().frames, _SKETCH):
                orders, _, frames = (column.to_pylist() for column in table.columns)
                merged = _merged_if_exact([*running, *frames]) if frames else None
                if merged is not None:
                    running = [merged]
                elif frames:
                    yield key_rows([pa.array(orders, pa.int64())], frames)
            if running:
                yield leaf_rows([], 0, running)

    return _knowing([], merge)


def merge_on_driver(rows: Iterable[Any]) -> Sketch | None:
    """The sketch of all rows (order, done, sketch), None if there are none."""
    ordered = sorted(rows, key=lambda row: row["order"])
    into = np.zeros(len(ordered), dtype=np.int64)
    return loads(merge_frames([row["sketch"] for row in ordered], into, 1)[0]) if ordered else None
