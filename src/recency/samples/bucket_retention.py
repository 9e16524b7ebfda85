"""Retentions of buckets of time: a sample by value per bucket, or all elements."""

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
from recency.samples.algorithm import Elements, Placed, Placing, Retention
from recency.samples.intake import Intake
from recency.samples.records import SampleStates, times_before, write_states


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketStates(SampleStates):
    """Encoded states with buckets; the last of the extra numbers is their number per key."""

    counts: Int64Array
    firsts: Int64Array
    """The first tick of each bucket."""


class _Buckets(Retention):
    """Samples of buckets, with the times of elements in their payload."""

    columns = np.float64, np.int64  # weight, time

    def kept(self, body: Samples) -> Int64Array:
        """Return the number of buckets that are not empty, per key."""
        return np.bincount(body.sketches()[_used(body)], minlength=body.counts.size)

    def times(self, sample: LevelSample) -> Int64Array:
        """Return the times, which are a column of the payload."""
        return _times(sample)

    def write(self, states: SampleStates, body: Samples, writer: RecordWriter) -> None:
        """Write the samples that are not empty, with ages and the latest time.

        Values take the place of times, and the largest value that of the latest time.
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
        write_states(stored, self.elements.codecs, writer, counts)
        writer.ragged(zigzag(states.latest[states.seen]), states.seen.astype(np.int64))

    def read(self, empty: LevelSample, intake: Intake, reader: RecordReader) -> "BucketStates":
        """Read what :meth:`write` wrote; the first tick of all buckets is the least int64."""
        stored = self._read(empty, intake, reader, None, None, more_numbers=1)
        latest = np.zeros(reader.size, dtype=np.int64)
        latest[stored.seen] = reader.signed(stored.seen.astype(np.int64))
        if (latest == INT64_MIN).any():
            corrupt(reader.name, "the latest time is out of range")
        counts = np.where(stored.seen, stored.extra[-1], 0)
        weights, ages = stored.sample.columns
        clocks = np.repeat(latest, counts)
        times = times_before(ages, clocks[stored.sample.keys], reader.name)
        sample = replace(stored.sample, columns=(weights, times))
        fields = {**vars(stored), "sample": sample, "latest": latest}
        return BucketStates(**fields, counts=counts, firsts=np.full(clocks.size, INT64_MIN))


class ByValue(_Buckets):
    """A sample per bucket of time, which keeps the elements with the largest values.

    Samples are labelled with the first ticks of their buckets, which follow from the latest time of
    each sketch. A bucket may be empty.
    """

    def __init__(self, elements: Elements, regions: Regions) -> None:
        super().__init__(elements)
        self._regions = regions

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """Return keys without buckets."""
        none = np.empty(0, dtype=np.int64)
        return np.zeros(size, dtype=np.int64), (none,)

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """Return the samples in the buckets of the latest times, including those of new rows."""
        (firsts,), sketches = body.labels, body.sketches()
        times = np.concatenate([firsts, rows[1]])
        both = np.concatenate([sketches, keys])
        placed = self._placed(body, sketches, *self._regions.covering(both, times, tally.latest))
        if np.array_equal(placed.labels[0], firsts) and np.array_equal(placed.counts, body.counts):
            return body
        sample = placed.sample.united(_no_cutoff(placed))
        return replace(placed, sample=sample)

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """Return the samples of merged keys in the buckets of the latest times."""
        sketches = into[body.sketches()]
        covering = self._regions.covering(sketches, body.labels[0], tally.latest)
        return self._placed(body, sketches, *covering)

    def _placed(
        self, body: Samples, sketches: Int64Array, firsts: Int64Array, counts: Int64Array
    ) -> Samples:
        """Return the samples of these sketches, moved to other, larger buckets."""
        numbers = by_key.last_not_above(firsts, counts, sketches, body.labels[0])
        return Samples(body.sample.renamed(numbers), counts, (firsts,))

    def placing(self, tally: Any, body: Samples) -> "BucketPlacing":
        """Return the rule that places an element into the bucket of its time."""
        return BucketPlacing(_no_cutoff(body), self.elements, body)

    def firsts(self, body: Samples) -> Int64Array:
        """Return the first tick of each bucket."""
        return body.labels[0]

    def write(self, states: SampleStates, body: Samples, writer: RecordWriter) -> None:
        """Write records; with the first ticks of buckets, if there can be several."""
        super().write(states, body, writer)
        if not self._regions.is_one:
            used = _used(body)
            sketches = body.sketches()[used]
            ages = ticks_between(body.labels[0][used], states.latest[sketches])
            writer.ragged(ages, np.bincount(sketches, minlength=states.seen.size))

    def read(self, empty: LevelSample, intake: Intake, reader: RecordReader) -> BucketStates:
        """Read what :meth:`write` wrote."""
        states = super().read(empty, intake, reader)
        if self._regions.is_one:
            return states
        clocks = np.repeat(states.latest, states.counts)
        firsts = times_before(reader.ragged(states.counts), clocks, reader.name, INT64_MIN)
        return replace(states, firsts=firsts)

    def restored(self, tally: Any, states: BucketStates) -> tuple[Samples, str | None]:
        """Return the samples, and what is wrong with their buckets, if anything."""
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
class BucketPlacing(Placing):
    """Rule that places each element into the bucket of its time."""

    elements: Elements
    body: Samples

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Return the elements with values above the edge of their level."""
        numbers = by_key.last_not_above(self.body.labels[0], self.body.counts, keys, rows[1])
        levels = self.elements.levels(rows)
        groups, orders = group_of(numbers, levels), rows[2].view(np.int64)
        placed = groups, orders, self.elements.payload(rows, levels)
        return _only(orders > edges.of(groups), placed)


class KeepAll(_Buckets):
    """Keeps every element that still counts, and refuses rows beyond the capacity.

    The only sample of each sketch is labelled with the number of its events that are not kept. So
    ``index`` minus that is an upper bound on the number of elements, also for admitted rows that
    are not absorbed yet.
    """

    is_sampled = False

    def __init__(self, elements: Elements, decay: FiniteExponential, capacity: int) -> None:
        super().__init__(elements)
        self._decay, self._capacity = decay, capacity

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """Return one sample per key."""
        return np.ones(size, dtype=np.int64), (np.zeros(size, dtype=np.int64),)

    def may_refuse(self, tally: Any, body: Samples, more: int) -> bool:
        """Whether there may be more elements than ``capacity``."""
        most = by_key.largest(tally.index - body.labels[0])
        return most + more > self._capacity or by_key.largest(tally.index) == INT64_MAX

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """Return the elements that still count, if the rows fit in as well."""
        counting = self._counting(tally, keys, rows[1])
        return self._kept(tally, body.sample, by_key.counts_of(counting, keys, tally.size))

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """Return the elements of merged keys that still count, if they fit."""
        return self._kept(tally, body.sample.renamed(into), 0)

    def _kept(self, tally: Any, sample: LevelSample, more: Int64Array | int) -> Samples:
        counting = self._counting(tally, sample.keys, _times(sample))
        if not counting.all():
            sample = sample.only(np.flatnonzero(counting))
        held = by_key.counts(sample.keys, tally.size) + more
        if (held > self._capacity).any():
            raise ValueError(
                f"every element that still counts is kept under {self._decay}: there "
                f"would be {held[held > self._capacity][0]}, and capacity is {self._capacity}"
            )
        return Samples(sample, np.ones(tally.size, dtype=np.int64), (tally.index - held,))

    def _counting(self, tally: Any, keys: Int64Array, times: Int64Array) -> BoolArray:
        """Whether elements still count."""
        counting: BoolArray = times > by_key.of_rows(cutoffs(tally.latest, self._decay.reach), keys)
        return counting

    def placing(self, tally: Any, body: Samples) -> "KeepAllPlacing":
        """Return the rule that places elements that still count."""
        alive = cutoffs(tally.latest, self._decay.reach)
        return KeepAllPlacing(_no_cutoff(body), self.elements, alive)

    def firsts(self, body: Samples) -> Int64Array:
        """Return the least int64 for each bucket."""
        return np.full(body.counts.size, INT64_MIN)

    def restored(self, tally: Any, states: BucketStates) -> tuple[Samples, str | None]:
        """Return the samples, and what is wrong with their elements, if anything."""
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
class KeepAllPlacing(Placing):
    """Rule that keeps all elements later than the cutoff of their key."""

    elements: Elements
    alive: Int64Array

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Return the elements that still count."""
        levels = self.elements.levels(rows)
        placed = group_of(keys, levels), rows[2].view(np.int64), self.elements.payload(rows, levels)
        return _only(rows[1] > by_key.of_rows(self.alive, keys), placed)


def _times(sample: LevelSample) -> Int64Array:
    times: Int64Array = sample.columns[1]
    return times


def _no_cutoff(body: Samples) -> Int64Array:
    """Return the least int64 for each sample, since values do not expire."""
    return np.broadcast_to(np.int64(INT64_MIN), max(int(body.counts.sum()), 1))


def _only(kept: BoolArray, placed: Placed) -> Placed:
    return placed if kept.all() else take(np.flatnonzero(kept), *placed)


def _used(body: Samples) -> BoolArray:
    """Return which samples are not empty."""
    used = np.zeros(int(body.counts.sum()), dtype=np.bool_)
    used[body.sample.keys] = used[body.sample.edge_keys] = True
    return used
