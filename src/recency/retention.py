"""Which elements the levels of a sample keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recency.core import by_key
from recency.core.arrays import Int64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter
from recency.core.level_sample import Columns, Edges, LevelSample, group_of
from recency.core.sample_states import ColumnCodec, SampleStates, read_states, write_states
from recency.core.samples import Samples
from recency.sample_algorithm import Elements, Intake, Placed


def joint(body: Samples, into: Int64Array, size: int, copies: int) -> Samples:
    """The same samples, where those of sketch i, ``copies`` of them, are those of ``into[i]``."""
    keys = into
    if copies > 1:
        keys = (into[:, None] * copies + np.arange(copies)).ravel()
    return Samples(body.sample.renamed(keys), np.full(size, copies))


class ByTime:
    """The most recent elements."""

    block = 1 << 13

    def __init__(self, elements: Elements, window: int | None, copies: int = 1) -> None:
        self._elements, self._window, self._copies = elements, window, copies
        self.columns = [codec.dtype for codec in elements.codecs]

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """As many samples as copies."""
        return np.full(size, self._copies), ()

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """As it is."""
        return body

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """See :func:`joint`."""
        return joint(body, into, size, self._copies)

    def placing(self, tally: Any, body: Samples) -> "TimePlacing":
        """Whatever a window still reaches."""
        cutoff = cutoffs(tally.latest, self._window)
        if self._copies > 1:
            cutoff = np.repeat(cutoff, self._copies)
        return TimePlacing(cutoff, self._elements)

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
            ids=intake.knows_ids,
        )

    def restored(self, tally: Any, states: SampleStates) -> tuple[Samples, str | None]:
        """As they are."""
        return Samples(states.sample, np.full(states.seen.size, self._copies)), None


@dataclass(frozen=True)
class TimePlacing:
    """Each element at its own level."""

    cutoff: Int64Array
    elements: Elements

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
