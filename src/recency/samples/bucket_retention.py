"""Which elements buckets of time keep: samples by value, or all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recency.core import by_key
from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    BoolArray,
    Int64Array,
    cutoffs,
    ticks_between,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt, zigzag
from recency.core.level_sample import Columns, Edges, LevelSample, group_of, take
from recency.core.samples import Samples
from recency.core.time_buckets import Regions
from recency.decay import FiniteExponential
from recency.samples.algorithm import Elements, Intake, Placed
from recency.samples.records import (
    ColumnCodec,
    SampleStates,
    read_states,
    times_before,
    write_states,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketStates(SampleStates):
    """The last of their extra numbers is how many buckets each has."""

    counts: Int64Array
    firsts: Int64Array
    """The first tick of each bucket."""


class ByValue:
    """A sample for each bucket, which keeps the largest values.

    Samples are labelled with the first ticks of their buckets. These are the buckets of the latest
    time of each sketch; some may be empty.
    """

    block = 1 << 13
    may_refuse = None
    columns = np.float64, np.int64  # weight, time

    def __init__(self, elements: Elements, regions: Regions) -> None:
        self._elements, self._regions = elements, regions

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """No buckets."""
        none = np.empty(0, dtype=np.int64)
        return np.zeros(size, dtype=np.int64), (none,)

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """With the buckets of the latest times, those of the rows included."""
        (firsts,), sketches = body.labels, body.sketches()
        times = np.concatenate([firsts, rows[1]])
        both = np.concatenate([sketches, keys])
        placed = self._placed(body, sketches, *self._regions.covering(both, times, tally.latest))
        if np.array_equal(placed.labels[0], firsts) and np.array_equal(placed.counts, body.counts):
            return body
        sample = placed.sample.united(_no_cutoff(placed))
        return replace(placed, sample=sample)

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """With the buckets of the latest times."""
        sketches = into[body.sketches()]
        covering = self._regions.covering(sketches, body.labels[0], tally.latest)
        return self._placed(body, sketches, *covering)

    def _placed(
        self, body: Samples, sketches: Int64Array, firsts: Int64Array, counts: Int64Array
    ) -> Samples:
        """The samples of these sketches under the numbers of other, larger buckets."""
        numbers = by_key.last_not_above(firsts, counts, sketches, body.labels[0])
        return Samples(body.sample.renamed(numbers), counts, (firsts,))

    def placing(self, tally: Any, body: Samples) -> "BucketPlacing":
        """To the bucket of its time."""
        return BucketPlacing(_no_cutoff(body), self._elements, body)

    def kept(self, body: Samples) -> Int64Array:
        """Buckets that anything is in."""
        return _used_buckets(body)

    def times(self, sample: LevelSample) -> Int64Array:
        """In a column of their own."""
        return _times(sample)

    def firsts(self, body: Samples) -> Int64Array:
        """The first tick of each bucket."""
        return body.labels[0]

    def write(
        self,
        states: SampleStates,
        body: Samples,
        codecs: Sequence[ColumnCodec],
        writer: RecordWriter,
    ) -> None:
        """With first ticks, if there can be several buckets."""
        used = _write(states, body, codecs, writer)
        if not self._regions.is_one:
            sketches = body.sketches()[used]
            ages = ticks_between(body.labels[0][used], states.latest[sketches])
            writer.ragged(ages, np.bincount(sketches, minlength=states.seen.size))

    def read(
        self, empty: LevelSample, elements: Elements, intake: Intake, reader: RecordReader
    ) -> BucketStates:
        """The inverse."""
        states = _read(empty, elements, intake, reader)
        if self._regions.is_one:
            return states
        clocks = np.repeat(states.latest, states.counts)
        firsts = times_before(reader.ragged(states.counts), clocks, reader.name, INT64_MIN)
        return replace(states, firsts=firsts)

    def restored(self, tally: Any, states: BucketStates) -> tuple[Samples, str | None]:
        """With buckets that there are."""
        body = Samples(states.sample, states.counts, (states.firsts,))
        sample, firsts, sketches = body.sample, states.firsts, body.sketches()
        if not _used(body).all():
            return body, "an empty bucket"
        if ((tally.least > 0) & (states.counts == 0)).any():
            return body, "weights without elements"
        in_order = (firsts[1:] > firsts[:-1]) | (sketches[1:] > sketches[:-1])
        first_of = self._regions.buckets(firsts, tally.known_latest[sketches])[0]
        if not in_order.all() or (firsts != first_of).any():
            return body, "a bucket that there is not"
        clocks = tally.known_latest[sketches[sample.keys]]
        if (self._regions.buckets(_times(sample), clocks)[0] != firsts[sample.keys]).any():
            return body, "an element that is in another bucket"
        return body, None


@dataclass(frozen=True)
class BucketPlacing:
    """Each element in the bucket of its time."""

    cutoff: Int64Array
    elements: Elements
    body: Samples

    def edges(self, sample: LevelSample) -> Edges:
        """The edges of levels."""
        return Edges(sample)

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Those with values above the edge of their level."""
        numbers = by_key.last_not_above(self.body.labels[0], self.body.counts, keys, rows[1])
        levels = self.elements.levels(rows)
        groups, orders = group_of(numbers, levels), rows[2].view(np.int64)
        placed = groups, orders, self.elements.payload(rows, levels)
        return _only(orders > edges.of(groups), placed)

    def pruned(self, sample: LevelSample) -> LevelSample:
        """As it is."""
        return sample


class KeepAll:
    """Every element that still counts; more than there is room for are refused.

    The only sample of each sketch is labelled with how many of its events it has not kept, so that
    it is known how many those may be that were admitted since: ``index`` minus that, or fewer.
    """

    block = 1 << 13
    columns = np.float64, np.int64  # weight, time

    def __init__(self, elements: Elements, decay: FiniteExponential, capacity: int) -> None:
        self._elements, self._decay, self._capacity = elements, decay, capacity

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """One sample each."""
        return np.ones(size, dtype=np.int64), (np.zeros(size, dtype=np.int64),)

    def may_refuse(self, tally: Any, body: Samples, more: int) -> bool:
        """Whether there may be more elements than there is room for."""
        most = by_key.largest(tally.index - body.labels[0])
        return most + more > self._capacity or by_key.largest(tally.index) == INT64_MAX

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """With what still counts at the latest times, if there is room for the rows as well."""
        counting = self._counting(tally, keys, rows[1])
        return self._kept(tally, body.sample, by_key.counts_of(counting, keys, tally.size))

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """The same."""
        return self._kept(tally, body.sample.renamed(into), 0)

    def _kept(self, tally: Any, sample: LevelSample, more: Int64Array | int) -> Samples:
        counting = self._counting(tally, sample.keys, _times(sample))
        if not counting.all():
            sample = sample.only(np.flatnonzero(counting))
        held = by_key.counts(sample.keys, tally.size) + more
        if (held > self._capacity).any():
            raise ValueError(
                f"{self._decay} is kept exactly, every element that still counts: there "
                f"would be {held[held > self._capacity][0]}, and capacity is {self._capacity}"
            )
        return Samples(sample, np.ones(tally.size, dtype=np.int64), (tally.index - held,))

    def _counting(self, tally: Any, keys: Int64Array, times: Int64Array) -> BoolArray:
        """Whether elements still count."""
        counting: BoolArray = times > by_key.of_rows(cutoffs(tally.latest, self._decay.reach), keys)
        return counting

    def placing(self, tally: Any, body: Samples) -> "KeepAllPlacing":
        """What still counts."""
        alive = cutoffs(tally.latest, self._decay.reach)
        return KeepAllPlacing(_no_cutoff(body), self._elements, alive)

    def kept(self, body: Samples) -> Int64Array:
        """Buckets that anything is in."""
        return _used_buckets(body)

    def times(self, sample: LevelSample) -> Int64Array:
        """In a column of their own."""
        return _times(sample)

    def firsts(self, body: Samples) -> Int64Array:
        """The beginning of time."""
        return np.full(body.counts.size, INT64_MIN)

    def write(
        self,
        states: SampleStates,
        body: Samples,
        codecs: Sequence[ColumnCodec],
        writer: RecordWriter,
    ) -> None:
        """One bucket, or none if it is empty."""
        _write(states, body, codecs, writer)

    def read(
        self, empty: LevelSample, elements: Elements, intake: Intake, reader: RecordReader
    ) -> BucketStates:
        """The inverse."""
        return _read(empty, elements, intake, reader)

    def restored(self, tally: Any, states: BucketStates) -> tuple[Samples, str | None]:
        """With what still counts."""
        stored = Samples(states.sample, states.counts)
        sample = states.sample.renamed(stored.sketches())
        held = np.bincount(sample.keys, minlength=tally.size)
        body = Samples(sample, np.ones(tally.size, dtype=np.int64), (tally.index - held,))
        if not _used(stored).all():
            return body, "an empty bucket"
        if (states.counts > 1).any():
            return body, "a bucket that there is not"
        if not self._counting(tally, sample.keys, _times(sample)).all():
            return body, "an element that no longer counts"
        return body, None


@dataclass(frozen=True)
class KeepAllPlacing:
    """All elements later than the cutoff of their key, whatever their values."""

    cutoff: Int64Array
    elements: Elements
    alive: Int64Array

    def edges(self, sample: LevelSample) -> Edges:
        """There are none."""
        return Edges(sample)

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Those that still count."""
        levels = self.elements.levels(rows)
        placed = group_of(keys, levels), rows[2].view(np.int64), self.elements.payload(rows, levels)
        return _only(rows[1] > by_key.of_rows(self.alive, keys), placed)

    def pruned(self, sample: LevelSample) -> LevelSample:
        """As it is."""
        return sample


def _times(sample: LevelSample) -> Int64Array:
    times: Int64Array = sample.columns[1]
    return times


def _no_cutoff(body: Samples) -> Int64Array:
    """Values do not expire."""
    return np.broadcast_to(np.int64(INT64_MIN), max(int(body.counts.sum()), 1))


def _only(kept: BoolArray, placed: Placed) -> Placed:
    return placed if kept.all() else take(np.flatnonzero(kept), *placed)


def _used_buckets(body: Samples) -> Int64Array:
    return np.bincount(body.sketches()[_used(body)], minlength=body.counts.size)


def _used(body: Samples) -> BoolArray:
    """The samples that anything is in."""
    used = np.zeros(int(body.counts.sum()), dtype=np.bool_)
    used[body.sample.keys] = used[body.sample.edge_keys] = True
    return used


def _write(
    states: SampleStates, body: Samples, codecs: Sequence[ColumnCodec], writer: RecordWriter
) -> BoolArray:
    """Records of the samples that anything is in, with ages and the latest time; which these are.

    Values take the place of times, and the largest one that of the latest time.
    """
    used, sketches, size = _used(body), body.sketches(), states.seen.size
    counts = np.bincount(sketches[used], minlength=size)
    sample = body.sample
    largest = np.zeros(size, dtype=np.int64)
    np.maximum.at(largest, sketches[sample.keys], sample.times)
    np.maximum.at(largest, sketches[sample.edge_keys], sample.edges)
    ages = ticks_between(_times(sample), states.latest[sketches[sample.keys]])
    stored = replace(
        states,
        sample=replace(sample.renamed(np.cumsum(used) - 1), columns=(sample.columns[0], ages)),
        latest=largest,
        extra=(*states.extra, counts),
    )
    write_states(stored, codecs, writer, counts)
    writer.ragged(zigzag(states.latest[states.seen]), states.seen.astype(np.int64))
    return used


def _read(
    empty: LevelSample, elements: Elements, intake: Intake, reader: RecordReader
) -> BucketStates:
    """The inverse; all buckets begin with time."""
    stored = read_states(
        empty,
        None,
        elements.level_range,
        len(intake.numbers) + 1,
        elements.codecs,
        reader,
        None,
        ids=intake.knows_ids,
    )
    latest = np.zeros(reader.size, dtype=np.int64)
    latest[stored.seen] = reader.signed(stored.seen.astype(np.int64))
    if (latest == INT64_MIN).any():
        corrupt(reader.name, "the latest time is out of range")
    counts = np.where(stored.seen, stored.extra[-1], 0)
    weights, ages = stored.sample.columns
    clocks = np.repeat(latest, counts)
    times = times_before(ages, clocks[stored.sample.keys], reader.name)
    return BucketStates(
        replace(stored.sample, columns=(weights, times)),
        stored.seen,
        latest,
        stored.extra,
        stored.by_id,
        counts=counts,
        firsts=np.full(clocks.size, INT64_MIN),
    )
