"""What is kept beside samples: nothing, or exact sums by age of the events of a key.

A sample says nothing of an event that is not in it, however often it was repeated with its id. So
where all events of a key had ids their sums are kept as well, in age cells.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from recency.core import by_key
from recency.core.age_cells import (
    LEAST_WHOLE,
    MOST_DIGIT,
    NO_CELLS,
    NUMBERS,
    PLACES,
    AgeCells,
    codes_at,
    firsts_at,
    most_level,
)
from recency.core.arrays import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    Int64Array,
    cutoffs,
    offsets,
    run_starts,
)
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.level_sample import Columns, LevelSample


class NoSums:
    """What is kept beside samples: nothing, unless a subclass says otherwise."""

    def with_rows(self, tally: Any, cells: AgeCells, keys: Int64Array, rows: Columns) -> AgeCells:
        """Return the sums with rows that the tally has counted, as of its clocks."""
        return cells

    def merged(self, tally: Any, cells: AgeCells, into: Int64Array) -> AgeCells:
        """Return the sums of keys with this tally, where key i is merged into key ``into[i]``."""
        return cells

    def write(self, tally: Any, cells: AgeCells, sample: LevelSample, writer: RecordWriter) -> None:
        """Write the sums behind the sample of each key."""

    def read(self, tally: Any, sample: LevelSample, reader: RecordReader) -> AgeCells:
        """Read what :meth:`write` wrote; refuse what no stream leads to."""
        return NO_CELLS

    def flaw(self, tally: Any, cells: AgeCells, sample: LevelSample) -> str | None:
        """Return what is wrong with sums that were read, if anything."""
        return None


class AgeSums(NoSums):
    """Sums of amounts ≥ 0, of the keys that the tally says are counted; the others have none."""

    def __init__(
        self,
        window: int | None,
        amounts: Callable[[FloatArray], FloatArray | None],
        most: float,
    ) -> None:
        self._window, self._amounts, self._most = window, amounts, most
        self.most_level = most_level(window)

    def _now(self, tally: Any) -> tuple[Int64Array, Int64Array, int]:
        return tally.known_latest, cutoffs(tally.latest, self._window), self.most_level

    def with_rows(self, tally: Any, cells: AgeCells, keys: Int64Array, rows: Columns) -> AgeCells:
        """Add rows (coin, time, value) of the keys that are counted."""
        is_counted: BoolArray = tally.is_counted
        if not is_counted.any():
            return NO_CELLS
        _, times, values = rows
        if not is_counted.all():
            cells = cells.only(is_counted[cells.keys])
            index = np.flatnonzero(is_counted[keys])
            keys, times, values = keys[index], times[index], values[index]
        return cells.with_rows(keys, times, self._amounts(values), *self._now(tally))

    def merged(self, tally: Any, cells: AgeCells, into: Int64Array) -> AgeCells:
        """Add the sums of keys that are merged."""
        joint = cells.renamed(into)
        return joint.only(tally.is_counted[joint.keys]).at(*self._now(tally))

    def _since(self, tally: Any, sample: LevelSample) -> Int64Array:
        """Return for each key the time after which its sample has all events."""
        since = cutoffs(tally.latest, self._window)
        np.maximum.at(since, sample.edge_keys, sample.edges)
        return since

    def write(self, tally: Any, cells: AgeCells, sample: LevelSample, writer: RecordWriter) -> None:
        """Write for each key how many digits there are, which (as steps), and the digits.

        Without those of cells of which the sample has all events.
        """
        clocks, _, _ = self._now(tally)
        cells = cells.only(cells.firsts <= self._since(tally, sample)[cells.keys])
        codes = cells.codes(clocks, self.most_level) * PLACES + cells.places
        order = np.argsort(codes)
        codes, keys = codes[order], cells.keys[order]
        steps = np.diff(codes, prepend=0)
        first = run_starts(keys)
        steps[first] = codes[first] - keys[first] * (NUMBERS * PLACES)
        counts = np.bincount(keys, minlength=tally.size)
        writer.ragged(counts[tally.is_counted].view(np.uint64), tally.is_counted.astype(np.int64))
        writer.ragged(steps.view(np.uint64), counts)
        writer.ragged(cells.digits[order].view(np.uint64), counts)

    def read(self, tally: Any, sample: LevelSample, reader: RecordReader) -> AgeCells:
        """Read what :meth:`write` wrote; refuse what no stream leads to."""
        clocks, expired, most = self._now(tally)
        present = np.flatnonzero(tally.is_counted)
        counts = np.zeros(reader.size, dtype=np.int64)
        counts[present] = reader.integers(tally.is_counted.astype(np.int64))
        steps = reader.integers(counts, most=NUMBERS * PLACES)
        digits = reader.integers(counts, most=MOST_DIGIT)
        keys = np.repeat(np.arange(reader.size), counts)
        begins = offsets(counts)[:-1]
        is_first = np.zeros(keys.size, dtype=np.bool_)
        is_first[begins[counts > 0]] = True
        if (steps[~is_first] < 1).any() or (digits < 1).any():
            corrupt(reader.name, "sums out of order, or of nothing")
        running = np.cumsum(steps)
        numbers = running - np.repeat(np.append(0, running)[begins], counts)
        if (numbers >= NUMBERS * PLACES).any():
            corrupt(reader.name, "a sum out of range")
        codes, places = np.divmod(numbers + keys * (NUMBERS * PLACES), PLACES)
        cells = AgeCells.of_codes(codes, places, digits, clocks)
        if cells is None or (cells.codes(clocks, most) != codes).any():
            corrupt(reader.name, "a sum of a cell that there is not")
        live = cells.at(clocks, expired, most)
        if live.keys.size < keys.size:
            corrupt(reader.name, "a sum that has expired")
        since = self._since(tally, sample)
        if (live.firsts > since[live.keys]).any():
            corrupt(reader.name, "a sum of events that are all there")
        rows = np.flatnonzero(tally.is_counted[sample.keys])
        keys, times = sample.keys[rows], sample.times[rows]
        own = firsts_at(times, by_key.of_rows(clocks, keys), most) > since[keys]
        amounts = self._amounts(sample.columns[0][rows[own]])
        whole = NO_CELLS.with_rows(keys[own], times[own], amounts, clocks, expired, most)
        return AgeCells.together([live, whole]).at(clocks, expired, most)

    def flaw(self, tally: Any, cells: AgeCells, sample: LevelSample) -> str | None:
        """Return an error if sums lack what is in the sample, or have more than was seen."""
        clocks, _, most = self._now(tally)
        if not cells.are_floats or (self._most == 1 and (cells.places < LEAST_WHOLE).any()):
            return "a sum of what no event has"
        sums = cells.sums(slice(None), tally.size)
        if ((sums > tally.index * self._most) & (tally.index < INT64_MAX)).any():
            return "sums of more events than were seen"
        rows = np.flatnonzero(tally.is_counted[sample.keys])
        numbers, of_digits = np.unique(cells.codes(clocks, most), return_inverse=True)
        codes = codes_at(sample.times[rows], sample.keys[rows], clocks, most)
        of_rows = np.searchsorted(numbers, codes)
        if (np.append(numbers, -1)[of_rows] != codes).any():
            return "an event that no sum has"
        values = sample.columns[0][rows]
        amounts = self._amounts(values)
        amounts = np.ones(values.size) if amounts is None else amounts
        sampled = by_key.float_sums(of_rows, amounts, numbers.size)
        told = replace(cells, keys=of_digits).sums(slice(None), numbers.size)
        return "a sum of less than is sampled" if (sampled > told).any() else None
