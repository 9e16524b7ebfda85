"""Leaves: what one Spark partition makes of its rows."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from recency.core.arrays import Int64Array
from recency.errors import CorruptSketchError, IncompatibleSketchError, OutOfOrderError
from recency.keyed import Keyed, only_key
from recency.serialization import encode_keyed
from recency.sketch import Sketch
from recency.spark.columns import chunks, number_rows, one_array, to_column
from recency.spark.job_number import first_stream

Mapper = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ORDER_BITS = 32  # of a leaf's order, below its partition
_ROWS_PER_BATCH = 10_000  # that are handed on at once


@dataclass(frozen=True)
class Limits:
    """Memory that a task takes, roughly."""

    chunk: int = 1 << 26
    """Bytes of rows that are worked on at once."""
    frames: int = 1 << 22
    """Bytes of encoded sketches that are merged, or handed on, at once; decoding takes 40 times."""
    sketches: int = 1 << 27
    """Bytes of the sketches of groups that are held before they are handed on."""
    is_tight: bool = False
    """Whether sketches must not keep rows buffered."""

    def here(self) -> "Limits":
        """These, or less in a process that may take little (``spark.executor.pyspark.memory``).

        Address space counts, which Arrow's allocator reserves in large pieces at its first use.
        """
        pa.array([0]).dictionary_encode()
        room = _room()
        if room > 16 * self.chunk:
            return self
        return Limits(
            chunk=min(self.chunk, room // 32),
            frames=min(self.frames, room // 256),
            sketches=min(self.sketches, room // 16),
            is_tight=True,
        )


def _room() -> int:
    """Bytes of address space that this process may still take."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return sys.maxsize
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(limit - pages * resource.getpagesize(), 0)
    except (ImportError, OSError):  # not Linux: Spark sets no limit, or cannot
        return sys.maxsize


@dataclass(frozen=True)
class Job:
    """A sketch that is to be built, and the columns that it is built from."""

    prototype: Sketch
    roles: tuple[str, ...]
    places: tuple[int, ...]  # of the columns, among those of a batch
    number: int | None = None  # that coins are drawn by; None where none are, or by ids

    def stream(self, order: int) -> int:
        """The stream of coins of a leaf, or of the first of several."""
        return order if self.number is None else first_stream(self.number) + order

    def events(self, columns: Sequence[Any]) -> tuple[dict[str, Any], Any]:
        """Arguments of ``update_many``, and which rows they are of (None: all).

        Rows with a NULL in a column that is used are left out.
        """
        used = [columns[place] for place in self.places]
        rows = None
        if any(column.null_count for column in used):
            valid = np.logical_and.reduce(
                [column.is_valid().to_numpy(zero_copy_only=False) for column in used]
            )
            rows = np.flatnonzero(valid)
            used = [column.filter(pa.array(valid)) for column in used]
        unit = getattr(self.prototype.config, "unit", None)
        given = zip(self.roles, used, strict=True)
        return {role: to_column(column, unit, role) for role, column in given}, rows


def group_leaves(
    jobs: Sequence[Job],
    merge_levels: int,
    is_whole: bool,
    limits: Limits,
    is_sorted: bool,
    function: str,
) -> Mapper:
    """A mapper to (groups…, which, order, done, sketch).

    A group has one row for each job, or several if the sketches of all groups together outgrew the
    memory that is set aside for them, or if they need an order that rows do not have: within a call
    they sort themselves. Without columns of groups, all rows are one group. With ``is_whole``, a
    partition has all rows of its groups; sketches that nothing has to be merged with are finished
    and marked as done.
    """
    again = not is_sorted and any(job.prototype.needs_order for job in jobs)

    def build(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with explained(function):
            room = limits.here()
            order = partition_id() << ORDER_BITS
            sketches, is_first = Groups(jobs, merge_levels, order), True
            tables = chunks(batches, room.chunk)
            table = next(tables, None)
            while table is not None:
                sketches.update(table)
                if room.is_tight:
                    sketches.flush()
                table = next(tables, None)
                if table is not None and (again or sketches.nbytes > room.sketches):
                    yield from sketches.rows(room.frames)
                    order += len(sketches)
                    sketches, is_first = Groups(jobs, merge_levels, order), False
            yield from sketches.rows(room.frames, done=is_whole and is_first)

    return build


class Groups:
    """The sketches of groups, which are rows of an Arrow table: for each group one of each job.

    A table without columns stands for one group, of all rows.
    """

    def __init__(self, jobs: Sequence[Job], merge_levels: int, order: int) -> None:
        self._jobs, self._order = jobs, order
        self._keyed = [
            Keyed(job.prototype._algorithm, 0, merge_levels, job.stream(order)) for job in jobs
        ]
        self._keys: Any = None

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._keyed[0])

    def update(self, table: Any) -> None:
        """Take in rows: the columns of the jobs, then those of the group."""
        first_key = 1 + max(place for job in self._jobs for place in job.places)
        columns = [one_array(column) for column in table.columns[:first_key]]
        numbers, size = self._numbered(table.select(range(first_key, table.num_columns)))
        for job, keyed in zip(self._jobs, self._keyed, strict=True):
            events, rows = job.events(columns)
            of_rows = numbers if rows is None else numbers[rows]
            keyed.update_many(of_rows, events, size)

    def _numbered(self, keys: Any) -> tuple[Int64Array, int]:
        """The group of each row, and how many groups there are by now."""
        if not keys.num_columns:
            return only_key(keys.num_rows), 1
        known = keys.slice(0, 0) if self._keys is None else self._keys
        keys = pa.concat_tables([known, keys])
        numbers, first_rows = number_rows([one_array(column) for column in keys.columns])
        self._keys = keys.take(first_rows).combine_chunks()
        return numbers[known.num_rows :], first_rows.size

    def flush(self) -> None:
        """Flush buffered rows."""
        for keyed in self._keyed:
            keyed.state()

    def rows(self, most_bytes: int, done: bool = False) -> Iterator[pa.RecordBatch]:
        """Groups and their sketches, ``most_bytes`` at once; what is ``done`` is finished, too."""
        keys = [] if self._keys is None else [one_array(column) for column in self._keys.columns]
        for which, (job, keyed) in enumerate(zip(self._jobs, self._keyed, strict=True)):
            final = keyed.finalized(job.prototype._keyed) if done else keyed
            frames = encode_keyed(job.prototype, final)
            sizes = np.cumsum([len(frame) for frame in frames])
            begin = 0
            while begin < len(frames):
                before = sizes[begin - 1] if begin else 0
                end = int(np.searchsorted(sizes, before + most_bytes, side="right"))
                end = max(min(end, begin + _ROWS_PER_BATCH), begin + 1)
                groups = [key.slice(begin, end - begin) for key in keys]
                groups.append(pa.array([which] * (end - begin), pa.int32()))
                yield leaf_rows(groups, self._order + begin, frames[begin:end], done)
                begin = end

    @property
    def nbytes(self) -> int:
        """The memory that the sketches take, roughly."""
        return sum(keyed.nbytes for keyed in self._keyed)


def leaf_rows(
    keys: list[Any], order: int, frames: list[bytes], done: bool = False
) -> pa.RecordBatch:
    """Rows (keys…, order, done, sketch), in that order: names have no effect in Spark."""
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


class explained(ContextDecorator):
    """Errors say which function they come from: on an executor nothing else would."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Errors in what was put in begin with the name; all others have it in a note."""
        if not isinstance(error, Exception):
            return
        if type(error) not in _OURS:
            error.add_note(f"in {self._function}")
        elif not str(error).startswith(self._function):
            error.args = (f"{self._function}: {error}",)
