"""Which elements the levels of a sample keep."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recency.core import by_key
from recency.core.arrays import INT64_MAX, Int64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter
from recency.core.decaying_levels import DecayFunction, Fading, Until, before_the_end, stored_once
from recency.core.level_sample import Columns, Edges, LevelSample, group_of
from recency.core.samples import Samples
from recency.samples.algorithm import Elements, Placed, Placing, Retention
from recency.samples.intake import Intake
from recency.samples.records import SampleStates, write_states
from recency.samples.weighted_tuples import TupleElements, Weights


class _Copies(Retention):
    """Each key has as many samples as there are copies."""

    def __init__(self, elements: Elements, copies: int) -> None:
        super().__init__(elements)
        self._copies = copies
        self.columns = [codec.dtype for codec in elements.codecs]

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """Return the number of copies for each key; there are no labels."""
        return np.full(size, self._copies), ()

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """Return the samples under the numbers of merged keys, copy by copy."""
        return body.alike(into, size)

    def of_samples(self, of_keys: Int64Array) -> Int64Array:
        """Return for each sample what its key has."""
        return np.repeat(of_keys, self._copies) if self._copies > 1 else of_keys

    def restored(self, tally: Any, states: SampleStates) -> tuple[Samples, str | None]:
        """Return the samples as they were written."""
        return Samples(states.sample, np.full(states.seen.size, self._copies)), None


class ByTime(_Copies):
    """The most recent elements."""

    def __init__(self, elements: Elements, window: int | None, copies: int = 1) -> None:
        super().__init__(elements, copies)
        self._window = window

    def placing(self, tally: Any, body: Samples) -> "TimePlacing":
        """Return the rule that keeps whatever a window still reaches."""
        return TimePlacing(self.of_samples(cutoffs(tally.latest, self._window)), self.elements)

    def write(self, states: SampleStates, body: Samples, writer: RecordWriter) -> None:
        """Write the samples as they are."""
        write_states(states, self.elements.codecs, writer, self._copies)

    def read(self, empty: LevelSample, intake: Intake, reader: RecordReader) -> SampleStates:
        """Read what :meth:`write` wrote."""
        return self._read(empty, intake, reader, self._window, self._copies)


@dataclass(frozen=True)
class TimePlacing(Placing):
    """Rule that places each element at its own level."""

    elements: Elements

    def place(self, edges: Edges, keys: Int64Array, rows: Columns) -> Placed:
        """Return the elements later than the edge of their level."""
        elements = self.elements
        levels = elements.levels(rows)
        groups, times = group_of(keys, levels), rows[1]
        kept = times > np.maximum(edges.of(groups), by_key.of_rows(self.cutoff, keys))
        if not kept.all():
            index = np.flatnonzero(kept)
            rows = tuple(column[index] for column in rows)
            groups, times, levels = groups[index], rows[1], levels[index]
        return elements.thinned((groups, times, elements.payload(rows, levels)))


class ByExpiry(_Copies):
    """The elements that expire last under one decay; at every level up to their own."""

    block = 1 << 12  # times the number of levels

    def __init__(
        self, elements: TupleElements, weights: Weights, decay: DecayFunction, copies: int = 1
    ) -> None:
        super().__init__(elements, copies)
        self._weights, self._decay = weights, decay
        self.columns = [*self.columns, np.int64]  # its time

    def placing(self, tally: Any, body: Samples) -> "ExpiryPlacing":
        """Return the rule that keeps whatever has not expired."""
        fading = self._fading(tally)
        return ExpiryPlacing(fading.clocks, self.elements, fading)

    def _fading(self, tally: Any) -> Fading:
        return self._weights.fading(
            self._decay,
            self.of_samples(self._weights.bottoms(tally.largest)),
            self.of_samples(np.minimum(tally.latest, before_the_end(INT64_MAX))),
        )

    def kept(self, body: Samples) -> Int64Array:
        """Return the number of elements; one that is at many levels counts once."""
        return replace(body, sample=stored_once(body.sample, self._weights.sampler)).kept()

    def times(self, sample: LevelSample) -> Int64Array:
        """Return the times, which are the last column of the payload."""
        times: Int64Array = sample.columns[-1]
        return times

    def write(self, states: SampleStates, body: Samples, writer: RecordWriter) -> None:
        """Write each element once."""
        once = replace(states, sample=stored_once(states.sample, self._weights.sampler))
        write_states(once, self.elements.codecs, writer, self._copies, ahead=True)

    def read(self, empty: LevelSample, intake: Intake, reader: RecordReader) -> SampleStates:
        """Read what :meth:`write` wrote."""
        return self._read(empty, intake, reader, None, self._copies, ahead=True)

    def restored(self, tally: Any, states: SampleStates) -> tuple[Samples, str | None]:
        """Return the samples with elements at all levels that they are at."""
        stored, fading = states.sample, self._fading(tally)
        body, _ = super().restored(tally, states)
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
class ExpiryPlacing(Placing):
    """Rule that places each element at all levels up to its own."""

    elements: Elements
    fading: Fading

    def edges(self, sample: LevelSample) -> Until:
        """Return the edges of all levels from the bottom on."""
        return Until(self.fading, sample)

    def place(self, edges: Until, keys: Int64Array, rows: Columns) -> Placed:
        """Return the elements that expire later than the edge of a level."""
        return self.fading.placed(edges, keys, (*self.elements.payload(rows, None), rows[1]))

    def pruned(self, sample: LevelSample) -> LevelSample:
        """Return the sample without the levels below the bottom."""
        return self.fading.pruned(sample)
