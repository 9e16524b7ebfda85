"""States of many level samples as columns, and their bytes.

A record is: whether anything was seen (bit 0) and, where events draw coins, whether any came with
an id (bit 1) and whether sums by age follow (bit 2); then the extra numbers of the sketch; then, if
anything was seen: the latest time; the number of edges (of each sample, where a sketch has
several), their levels (ascending, as steps) and how long before the latest time they lie; the
number of levels with elements (of each sample), those levels (as steps) and how many elements each
has; the common divisor of all time differences; for each element, newest first within its level,
the time to the next newer one of the level (the newest: to the latest time) over that divisor; and
last the further columns, each in its own way.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    BoolArray,
    Int64Array,
    UInt64Array,
    cutoffs,
    offsets,
    run_lengths,
    run_starts,
    ticks_between,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt, unzigzag, zigzag
from recency.core.level_sample import LevelSample, group_of

_FIRST_TICK = INT64_MIN + 1


class ColumnCodec(ABC):
    """How one further column of the elements is written."""

    dtype: Any

    @abstractmethod
    def write(self, values: NDArray[Any], counts: Int64Array, writer: RecordWriter) -> None:
        """Write the values of all elements, ``counts`` of them per record."""

    @abstractmethod
    def read(self, levels: Int64Array, counts: Int64Array, reader: RecordReader) -> NDArray[Any]:
        """Read what :meth:`write` wrote; refuse values that no element can have."""


@dataclass(frozen=True, eq=False)
class SampleStates:
    """One row per sketch of one configuration, each of one sample or more.

    The keys of the elements are sketch after sketch.
    """

    sample: LevelSample
    seen: BoolArray
    latest: Int64Array  # 0 where nothing was seen
    extra: tuple[Int64Array, ...]  # non-negative
    flags: tuple[BoolArray, ...] = ()  # what else is true or false; false where nothing was seen


def write_states(
    states: SampleStates,
    codecs: Sequence[ColumnCodec],
    writer: RecordWriter,
    samples: int | Int64Array = 1,
    ahead: bool = False,
) -> None:
    """Append the columns of all states to ``writer``; ``samples`` is the number of samples of each.

    With ``ahead``, edges are later than the latest time: the distance is written all the same.
    """
    sample = states.sample.in_order()
    size = states.seen.size
    present = states.seen.astype(np.int64)
    flags = present.copy()
    for bit, flag in enumerate(states.flags, 1):
        flags += flag.astype(np.int64) << bit
    writer.scalar(flags.view(np.uint64))
    for column in states.extra:
        writer.scalar(column.view(np.uint64))
    writer.ragged(zigzag(states.latest)[states.seen], present)

    # Samples are numbered anew, without those of sketches that have seen nothing.
    record = np.repeat(np.arange(size), samples)
    written = present * samples
    used = int(written.sum())
    numbers = np.cumsum(present[record]) - 1

    edge_numbers = numbers[sample.edge_keys]
    edge_counts = np.bincount(edge_numbers, minlength=used)
    writer.ragged(edge_counts.view(np.uint64), written)
    edge_records = record[sample.edge_keys]
    edges_of_record = np.bincount(edge_records, minlength=size)
    writer.ragged(zigzag(_steps(sample.edge_levels, edge_numbers)), edges_of_record)
    ends = (sample.edges, states.latest[edge_records])
    writer.ragged(ticks_between(*(ends[::-1] if ahead else ends)), edges_of_record)

    starts = run_starts(sample.groups)
    level_counts = run_lengths(starts, sample.groups.size)
    level_numbers = numbers[sample.keys[starts]]
    level_records = record[sample.keys[starts]]
    levels_of_record = np.bincount(level_records, minlength=size)
    per_sample = np.bincount(level_numbers, minlength=used)
    writer.ragged(per_sample.view(np.uint64), written)
    writer.ragged(zigzag(_steps(sample.levels[starts], level_numbers)), levels_of_record)
    writer.ragged(level_counts.view(np.uint64), levels_of_record)

    records = record[sample.keys]
    newer = np.empty(sample.times.size, dtype=np.int64)
    newer[1:] = sample.times[:-1]
    newer[starts] = states.latest[level_records]
    ages = ticks_between(sample.times, newer)
    counts = np.bincount(records, minlength=size)
    _write_divided(ages, counts, writer)
    for codec, column in zip(codecs, sample.columns, strict=True):
        codec.write(column, counts, writer)


def read_states(
    empty: LevelSample,
    window: int | None,
    level_range: tuple[int, int],
    extras: int,
    codecs: Sequence[ColumnCodec],
    reader: RecordReader,
    samples: int | None = 1,
    ahead: bool = False,
    flags: int = 0,
) -> SampleStates:
    """Read what :func:`write_states` wrote; refuse what no stream leads to.

    Each state has ``samples`` samples; None: as many as the last of its extra numbers says. With
    ``ahead`` the caller has to look for flaws: what edges and times mean is its own affair.
    """
    name = reader.name
    bits = reader.integer(most=(2 << flags) - 1)
    present = bits & 1
    if (bits[present == 0] > 0).any():
        corrupt(name, "a flag where nothing was seen")
    seen = present > 0
    extra = tuple(reader.integer() for _ in range(extras))
    latest = np.zeros(reader.size, dtype=np.int64)
    latest[seen] = reader.signed(present)
    if (latest < _FIRST_TICK).any():
        corrupt(name, "the latest time is out of range")

    # Reading compares counts with what is there: only then is anything of that size made.
    written = present * (extra[-1] if samples is None else samples)
    edge_counts = reader.integers(written)
    records = np.repeat(np.arange(reader.size), written)  # of each sample of those sketches
    edges_of_record = reader.sums(edge_counts, records)
    edge_steps = reader.signed(edges_of_record)
    edge_numbers = np.repeat(np.arange(records.size), edge_counts)
    edge_levels = _levels(edge_steps, edge_numbers, level_range, name)
    distances = reader.ragged(edges_of_record)
    edges = (_after if ahead else times_before)(distances, latest[records[edge_numbers]], name)

    per_sample = reader.integers(written)
    levels_of_record = reader.sums(per_sample, records)
    level_steps = reader.signed(levels_of_record)
    level_numbers = np.repeat(np.arange(records.size), per_sample)
    levels = _levels(level_steps, level_numbers, level_range, name)
    most = INT64_MAX if ahead else empty.capacity
    level_counts = reader.integers(levels_of_record, most=most)
    if (level_counts < 1).any():
        corrupt(name, "a level without elements")
    counts = reader.sums(level_counts, records[level_numbers])
    steps = _read_divided(counts, reader)
    numbers = np.repeat(level_numbers, level_counts)
    group_start = np.repeat(offsets(level_counts)[:-1], level_counts)
    ages = _running_ages(steps, group_start, name)
    times = times_before(ages, latest[records[numbers]], name)
    element_levels = np.repeat(levels, level_counts)
    columns = tuple(codec.read(element_levels, counts, reader) for codec in codecs)
    sample = LevelSample(
        empty.capacity,
        empty.distinct,
        group_of(numbers, element_levels),
        times,
        columns,
        group_of(edge_numbers, edge_levels),
        edges,
    )
    flaw = None if ahead else sample.flaw(cutoffs(latest, window)[records])
    if flaw:
        corrupt(name, flaw)
    # The key of each number: those of sketches that have seen nothing come in between.
    key = np.arange(records.size)
    if samples is not None:
        key = records * samples + key % samples
    sample = replace(
        sample,
        groups=group_of(key[numbers], element_levels),
        edge_groups=group_of(key[edge_numbers], edge_levels),
    )
    told = tuple((bits >> bit) & 1 > 0 for bit in range(1, flags + 1))
    return SampleStates(sample, seen, latest, extra, told)


def _steps(levels: Int64Array, keys: Int64Array) -> Int64Array:
    """Return differences between successive levels of a key, and its first level itself."""
    steps = np.diff(levels, prepend=0)
    first = run_starts(keys)
    steps[first] = levels[first]
    return steps


def _levels(
    steps: Int64Array, keys: Int64Array, level_range: tuple[int, int], name: str
) -> Int64Array:
    low, high = level_range
    if (steps < low).any() or (steps > high - low).any():
        corrupt(name, "a level out of range")
    running = np.cumsum(steps)
    first = run_starts(keys)
    before = np.repeat((running - steps)[first], run_lengths(first, keys.size))
    levels: Int64Array = running - before
    is_first = np.zeros(keys.size, dtype=np.bool_)
    is_first[first] = True
    if (levels < low).any() or (levels > high).any() or (steps[~is_first] <= 0).any():
        corrupt(name, "levels out of order")
    return levels


def times_before(
    ages: UInt64Array, latest: Int64Array, name: str, first: int = _FIRST_TICK
) -> Int64Array:
    """Return latest − ages; refuse what is no time."""
    if (ages > ticks_between(first, latest)).any():
        corrupt(name, "times out of range")
    times: UInt64Array = latest.view(np.uint64) - ages
    return times.view(np.int64)


def _after(distances: UInt64Array, latest: Int64Array, name: str) -> Int64Array:
    """Return latest + distances; refuse what is no time."""
    if (distances > ticks_between(latest, INT64_MAX)).any():
        corrupt(name, "times out of range")
    times: UInt64Array = latest.view(np.uint64) + distances
    return times.view(np.int64)


def _write_divided(values: UInt64Array, counts: Int64Array, writer: RecordWriter) -> None:
    """Write the greatest common divisor of each record, then its values divided by it."""
    filled = counts > 0
    divisor = np.zeros(counts.size, dtype=np.uint64)
    if values.size:
        divisor[filled] = np.gcd.reduceat(values, offsets(counts)[:-1][filled])
    divisor = np.maximum(divisor, np.uint64(1))
    writer.ragged(divisor[filled], filled.astype(np.int64))
    writer.ragged(values // np.repeat(divisor, counts), counts)


def _read_divided(counts: Int64Array, reader: RecordReader) -> UInt64Array:
    """Read what :func:`_write_divided` wrote; refuse products that do not fit."""
    filled = counts > 0
    divisor = np.ones(counts.size, dtype=np.uint64)
    divisor[filled] = reader.ragged(filled.astype(np.int64))
    quotients = reader.ragged(counts)
    divisors = np.repeat(divisor, counts)
    if (divisor == 0).any() or (quotients > np.uint64(2**64 - 1) // np.maximum(divisors, 1)).any():
        corrupt(reader.name, "times out of range")
    return quotients * divisors


def _running_ages(steps: UInt64Array, group_start: Int64Array, name: str) -> UInt64Array:
    """Sums of the steps of a group up to each element; refuses sums that do not fit."""
    running = np.append(np.uint64(0), np.cumsum(steps))  # may wrap; differences do not mind
    ages: UInt64Array = running[1:] - running[group_start]
    inner = group_start != np.arange(group_start.size)
    if (ages[inner] < steps[inner]).any():  # it did wrap within a group
        corrupt(name, "times out of range")
    return ages


class IdentityCodec(ColumnCodec):
    """Identities of items: 56 bits of their hash, fewer on high levels."""

    dtype = np.uint64

    def write(self, values: NDArray[Any], counts: Int64Array, writer: RecordWriter) -> None:
        """Write the identities as they are."""
        writer.ragged(values, counts)

    def read(self, levels: Int64Array, counts: Int64Array, reader: RecordReader) -> NDArray[Any]:
        """Read identities; refuse those that are too large for their level."""
        values = reader.ragged(counts)
        if (values > self.most(levels)).any():
            corrupt(reader.name, "an identity out of range")
        return values

    def most(self, levels: Int64Array) -> UInt64Array:
        """Return the largest identity at each level."""
        bits = np.clip(63 - levels, 0, 56).astype(np.uint64)
        return (np.uint64(1) << bits) - np.uint64(1)


class CoinCodec(IdentityCodec):
    """Coins: 53 bits of the hash of an element, whatever its level."""

    def most(self, levels: Int64Array) -> UInt64Array:
        """Return the largest coin, whatever the level."""
        return np.full(levels.size, 2**53 - 1, dtype=np.uint64)


def identities(hashes: UInt64Array, levels: Int64Array) -> UInt64Array:
    """What is kept of a hash: its lowest 56 bits above those that the level gives away."""
    return (hashes >> levels.view(np.uint64) >> np.uint64(1)) & np.uint64(2**56 - 1)


class NumberCodec(ColumnCodec):
    """Floats: as integers where all of a record are, else by their bits, trailing zeros first."""

    dtype = np.float64

    def write(self, values: NDArray[Any], counts: Int64Array, writer: RecordWriter) -> None:
        """Write a flag for each record, then the numbers."""
        owners = np.repeat(np.arange(counts.size), counts)
        small = np.abs(values) < 2.0**53
        whole = small & (np.where(small, values, 0.5) % 1 == 0)
        as_integers = np.bincount(owners, ~whole, counts.size) == 0
        writer.scalar(as_integers.astype(np.uint64))
        integers = zigzag(np.where(whole, values, 0).astype(np.int64))
        bits = values.view(np.uint64).byteswap()
        writer.ragged(np.where(as_integers[owners], integers, bits), counts)

    def read(self, levels: Int64Array, counts: Int64Array, reader: RecordReader) -> NDArray[Any]:
        """Read numbers; refuse those that are not finite, and negative zeros."""
        as_integers = reader.integer(most=1) > 0
        numbers = reader.ragged(counts)
        owners = np.repeat(np.arange(counts.size), counts)
        from_bits = numbers.byteswap().view(np.float64)
        values = np.where(as_integers[owners], unzigzag(numbers).astype(np.float64), from_bits)
        if not np.isfinite(values).all() or ((values == 0) & np.signbit(values)).any():
            corrupt(reader.name, "a number that is not finite, or a negative zero")
        return values


class AgeCodec(ColumnCodec):
    """Ages in ticks, divided by what divides all of a record."""

    dtype = np.uint64

    def write(self, values: NDArray[Any], counts: Int64Array, writer: RecordWriter) -> None:
        """Write the divisor of each record, then the quotients."""
        _write_divided(values, counts, writer)

    def read(self, levels: Int64Array, counts: Int64Array, reader: RecordReader) -> NDArray[Any]:
        """Read divisors and quotients, and return their products."""
        return _read_divided(counts, reader)


class ItemCodec(ColumnCodec):
    """Items as they came: integers, strings, bytes."""

    dtype = object

    def write(self, values: NDArray[Any], counts: Int64Array, writer: RecordWriter) -> None:
        """Write the kinds of all items; then integers; then lengths and bytes of the others."""
        kinds = np.array([_kind(item) for item in values], dtype=np.int64)
        texts = [
            item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
            for item in values[kinds > 0]
        ]
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        owners = np.repeat(np.arange(counts.size), counts)
        text_owners = owners[kinds > 0]
        writer.ragged(kinds.view(np.uint64), counts)
        integers = values[kinds == 0].astype(np.int64)
        writer.ragged(zigzag(integers), np.bincount(owners[kinds == 0], minlength=counts.size))
        writer.ragged(lengths.view(np.uint64), np.bincount(text_owners, minlength=counts.size))
        data = np.frombuffer(b"".join(texts), dtype=np.uint8).astype(np.uint64)
        per_record = np.bincount(text_owners, lengths, counts.size).astype(np.int64)
        writer.ragged(data, per_record)

    def read(self, levels: Int64Array, counts: Int64Array, reader: RecordReader) -> NDArray[Any]:
        """Read items; refuse strings that are not UTF-8."""
        kinds = reader.integers(counts, most=2)
        owners = np.repeat(np.arange(counts.size), counts)
        text_counts = np.bincount(owners[kinds > 0], minlength=counts.size)
        integers = reader.signed(counts - text_counts)
        lengths = reader.integers(text_counts, most=2**31)
        text_owners = owners[kinds > 0]
        per_record = np.bincount(text_owners, lengths, counts.size).astype(np.int64)
        data = reader.integers(per_record, most=255).astype(np.uint8).tobytes()
        ends = np.cumsum(lengths)
        items = np.empty(kinds.size, dtype=object)
        items[kinds == 0] = integers.tolist()
        texts = np.empty(lengths.size, dtype=object)
        text_kinds = kinds[kinds > 0]
        for i, (begin, end) in enumerate(zip(ends - lengths, ends, strict=True)):
            text = data[begin:end]
            try:
                texts[i] = text.decode("utf-8", "surrogatepass") if text_kinds[i] == 1 else text
            except UnicodeDecodeError:
                corrupt(reader.name, "a string that is not UTF-8")
        items[kinds > 0] = texts
        return items


def _kind(item: object) -> int:
    return 1 if isinstance(item, str) else 2 if isinstance(item, bytes) else 0
