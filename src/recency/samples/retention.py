"""Which elements the levels of a sample keep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recency.core import by_key
from recency.core.arrays import INT64_MAX, Int64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter
from recency.core.decaying_levels import DecayFunction, Fading, Until, before_the_end, stored_once
from recency.core.level_sample import Columns, Edges, LevelSample, group_of
from recency.core.samples import Samples
from recency.samples.algorithm import Elements, Intake, Placed
from recency.samples.records import ColumnCodec, SampleStates, read_states, write_states
from recency.samples.weighted_tuples import TupleElements, Weights


class _Copies:
    """Each key has as many samples as there are copies."""

    may_refuse = None

    def __init__(self, copies: int) -> None:
        self._copies = copies

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """Without labels."""
        return np.full(size, self._copies), ()

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """As it is."""
        return body

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """Copy by copy."""
        keys = into
        if self._copies > 1:
            keys = (into[:, None] * self._copies + np.arange(self._copies)).ravel()
        return Samples(body.sample.renamed(keys), np.full(size, self._copies))

    def of_samples(self, of_keys: Int64Array) -> Int64Array:
        """For each sample, what its key has."""
        return np.repeat(of_keys, self._copies) if self._copies > 1 else of_keys


class ByTime(_Copies):
    """The most recent elements."""

    block = 1 << 13

    def __init__(self, elements: Elements, window: int | None, copies: int = 1) -> None:
        super().__init__(copies)
        self._elements, self._window = elements, window
        self.columns = [codec.dtype for codec in elements.codecs]

    def placing(self, tally: Any, body: Samples) -> "TimePlacing":
        """Whatever a window still reaches."""
        return TimePlacing(self.of_samples(cutoffs(tally.latest, self._window)), self._elements)

    def kept(self, body: Samples) -> Int64Array:
        """All that there are."""
        return body.kept()

    def times(self, sample: LevelSample) -> Int64Array:
        """As they are."""
        return sample.times

    def write(
        self,
        states: SampleStates,
        body: Samples,
        codecs: Sequence[ColumnCodec],
        writer: RecordWriter,
    ) -> None:
        """As they are."""
        write_states(states, codecs, writer, self._copies)

    def read(
        self, empty: LevelSample, elements: Elements, intake: Intake, reader: RecordReader
    ) -> SampleStates:
        """The inverse."""
        return read_states(
            empty,
            self._window,
            elements.level_range,
            len(intake.numbers),
            elements.codecs,
            reader,
            self._copies,
            flags=len(intake.flags),
        )

    def restored(self, tally: Any, states: SampleStates) -> tuple[Samples, str | None]:
        """As they are."""
        return Samples(states.sample, np.full(states.seen.size, self._copies)), None


@dataclass(frozen=True)
class TimePlacing:
    """Each element at its own level."""

    cutoff: Int64Array
    elements: Elements

    def edges(self, sample: LevelSample) -> Edges:
        """The edges of levels."""
        return Edges(sample)

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Those later than the edge of their level."""
        elements = self.elements
        levels = elements.levels(rows)
        groups, times = group_of(keys, levels), rows[1]
        kept = times > np.maximum(edges.of(groups), by_key.of_rows(self.cutoff, keys))
        if not kept.all():
            index = np.flatnonzero(kept)
            rows = tuple(column[index] for column in rows)
            groups, times, levels = groups[index], rows[1], levels[index]
        return elements.thinned((groups, times, elements.payload(rows, levels)))

    def pruned(self, sample: LevelSample) -> LevelSample:
        """As it is."""
        return sample


class ByExpiry(_Copies):
    """The elements that expire last under one decay; at every level up to their own."""

    block = 1 << 12  # times the number of levels

    def __init__(
        self, elements: TupleElements, weights: Weights, decay: DecayFunction, copies: int = 1
    ) -> None:
        super().__init__(copies)
        self._elements, self._weights, self._decay = elements, weights, decay
        self.columns = [*(codec.dtype for codec in elements.codecs), np.int64]  # its time

    def placing(self, tally: Any, body: Samples) -> "ExpiryPlacing":
        """Whatever has not expired."""
        return ExpiryPlacing(self.fading(tally), self._elements)

    def fading(self, tally: Any) -> Fading:
        """Where elements go now."""
        return self._weights.fading(
            self._decay,
            self.of_samples(self._weights.bottoms(tally.largest)),
            self.of_samples(np.minimum(tally.latest, before_the_end(INT64_MAX))),
        )

    def kept(self, body: Samples) -> Int64Array:
        """Elements are at many levels, and count once."""
        return replace(body, sample=stored_once(body.sample, self._weights.sampler)).kept()

    def times(self, sample: LevelSample) -> Int64Array:
        """In a column of their own."""
        times: Int64Array = sample.columns[-1]
        return times

    def write(
        self,
        states: SampleStates,
        body: Samples,
        codecs: Sequence[ColumnCodec],
        writer: RecordWriter,
    ) -> None:
        """Each element once."""
        once = replace(states, sample=stored_once(states.sample, self._weights.sampler))
        write_states(once, codecs, writer, self._copies, ahead=True)

    def read(
        self, empty: LevelSample, elements: Elements, intake: Intake, reader: RecordReader
    ) -> SampleStates:
        """The inverse."""
        return read_states(
            empty,
            None,
            elements.level_range,
            len(intake.numbers),
            elements.codecs,
            reader,
            self._copies,
            ahead=True,
            flags=len(intake.flags),
        )

    def restored(self, tally: Any, states: SampleStates) -> tuple[Samples, str | None]:
        """Elements at all levels that they are at."""
        stored, fading = states.sample, self.fading(tally)
        body = Samples(stored, np.full(states.seen.size, self._copies))
        keys = stored.edge_keys
        if (stored.edge_levels < by_key.of_rows(fading.bottoms, keys)).any():
            return body, "a level below the lowest"
        if (stored.edges <= by_key.of_rows(fading.clocks, keys)).any():
            return body, "an edge that has expired"
        if (np.diff(stored.edge_groups) <= 0).any():
            return body, "levels out of order"
        sample = fading.restored(stored)
        return replace(body, sample=sample), sample.flaw(fading.clocks)


@dataclass(frozen=True)
class ExpiryPlacing:
    """Each element at all levels."""

    fading: Fading
    elements: TupleElements

    @property
    def cutoff(self) -> Int64Array:
        """The clock."""
        return self.fading.clocks

    def edges(self, sample: LevelSample) -> Until:
        """The edges of all levels from the bottom on."""
        return Until(self.fading, sample)

    def place(self, edges: Until, keys: Int64Array, rows: Columns) -> Placed:
        """Those that expire later than the edge of a level."""
        return self.fading.placed(edges, keys, (*self.elements.payload(rows), rows[1]))

    def pruned(self, sample: LevelSample) -> LevelSample:
        """Without the levels below the bottom."""
        return self.fading.pruned(sample)
