"""What all sketches on a level sample do with rows; what differs are the parts they are made of.

- An **intake** makes rows of arguments: it checks them, draws coins, and counts (the tally). The
  first two columns of a row are its coin and its time.
- **Elements** are what is kept of rows: at which level, and with what payload.
- A **retention** says which elements a level keeps: the latest, or those that expire last.
- **Sums** say what else is kept: nothing, or exact sums by age (see :mod:`recency.core.age_cells`).

Times may come in any order, and merging is exact: the state is a function of the set of elements
(see :mod:`recency.core.level_sample`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from recency.algorithm import Admitted, Algorithm, Columns, State
from recency.core.arrays import BoolArray, FloatArray, Int64Array, offsets, stable_order
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.level_sample import Edges, LevelSample
from recency.core.samples import Samples
from recency.keyed import only_key
from recency.samples import coins
from recency.samples.age_sums import NoSums
from recency.samples.intake import Intake
from recency.samples.records import ColumnCodec, SampleStates, read_states

_ABSORB = 1 << 14  # survivors collected, at least, before the sample takes them in
_MOST_SURVIVORS = 1 << 18
_ONLY_KEY, _NO_ROWS = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.intp)

Placed = tuple[Int64Array, Int64Array, Columns]
"""Elements: groups, times (or what takes their place), payload."""
Blocks = Iterator[tuple[Int64Array, Columns]]
"""Keys and columns of some rows at a time."""


class Elements(ABC):
    """What is kept of rows."""

    distinct: bool = False
    """Whether elements have an identity (the first column of their payload) and count once."""
    level_range: tuple[int, int]
    codecs: Sequence[ColumnCodec]
    """How the payload is written."""

    def draws(self, rows: Columns) -> Sequence[Columns]:
        """Return the rows with the coins that each of the samples of a sketch draws."""
        return (rows,)

    @abstractmethod
    def levels(self, rows: Columns) -> Int64Array:
        """Return the level of each row."""

    @abstractmethod
    def payload(self, rows: Columns, levels: Any) -> Columns:
        """Return what is kept besides the time."""

    def thinned(self, placed: Placed) -> Placed:
        """Drop elements that others make superfluous, if that is cheap to tell."""
        return placed

    @abstractmethod
    def flaw(self, sample: LevelSample) -> str | None:
        """Return what is wrong with a sample that was read, if anything."""


@dataclass(frozen=True)
class Placing(ABC):
    """Where elements go, as of some clocks."""

    cutoff: Int64Array
    """For each sample, the last time (or what takes its place) that no question reaches."""

    def edges(self, sample: LevelSample) -> Any:
        """Return what :meth:`place` has to know of a sample: the edges of its levels."""
        return Edges(sample)

    @abstractmethod
    def place(self, edges: Any, keys: Int64Array, rows: Columns) -> Placed:
        """Return what rows bring to the samples of their keys, without most that is not kept.

        A single key stands for all rows.
        """

    def pruned(self, sample: LevelSample) -> LevelSample:
        """Return the sample without levels that are of no use any more."""
        return sample


class Retention(ABC):
    """Which elements a level keeps."""

    block: int = 1 << 13
    """Rows looked at in one pass: temporaries that stay in the cache."""
    is_sampled: bool = True
    """Whether coins decide which elements are kept."""
    columns: Sequence[Any]
    """The types of the columns of elements."""
    may_refuse: Callable[[Any, Any, int], bool] | None = None
    """See :attr:`Algorithm.may_refuse`; :meth:`moved` and :meth:`joint` do it."""

    def __init__(self, elements: Elements) -> None:
        self.elements = elements

    @abstractmethod
    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """Return how many samples each of ``size`` empty keys has, and labels of them."""

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """Return the body as it has to be for rows to come in."""
        return body

    @abstractmethod
    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """Return the body where key i has the number ``into[i]``, with the tally of these.

        Samples that have one number then are merged afterwards.
        """

    @abstractmethod
    def placing(self, tally: Any, body: Samples) -> Placing:
        """Return where elements go now."""

    def kept(self, body: Samples) -> Int64Array:
        """Return how many elements, or buckets of them, each sketch has."""
        return body.kept()

    def times(self, sample: LevelSample) -> Int64Array:
        """Return the times of events."""
        return sample.times

    @abstractmethod
    def write(self, states: SampleStates, body: Samples, writer: RecordWriter) -> None:
        """Write a record for each key."""

    @abstractmethod
    def read(self, empty: LevelSample, intake: Intake, reader: RecordReader) -> SampleStates:
        """Read what :meth:`write` wrote, as it was written."""

    def _read(
        self,
        empty: LevelSample,
        intake: Intake,
        reader: RecordReader,
        window: int | None,
        samples: int | None,
        more_numbers: int = 0,
        ahead: bool = False,
    ) -> SampleStates:
        """Read the columns of all states; see :func:`read_states`."""
        elements, numbers = self.elements, len(intake.numbers) + more_numbers
        told = elements.level_range, numbers, elements.codecs, reader
        return read_states(empty, window, *told, samples, ahead, len(intake.flags))

    @abstractmethod
    def restored(self, tally: Any, states: Any) -> tuple[Samples, str | None]:
        """Return the body, and what is wrong with it, if anything."""


class SampleAlgorithm(Algorithm):
    """Algorithm whose body is one level sample of each key, or several."""

    merge_law = "exact"

    def __init__(
        self,
        config: Any,
        intake: Intake,
        retention: Retention,
        promise: Callable[[], float],
        *,
        flush_rows: int = 1 << 18,
        reading: Any = None,
        sums: NoSums | None = None,
    ) -> None:
        self.intake, self.retention, self.elements = intake, retention, retention.elements
        self.capacity, self.confidence = config.capacity, config.confidence
        self.window, self.unit = config.window, config.unit
        self.promise, self.draws_coins = promise, intake.draws_coins
        self.reading = reading  # what questions need besides, if anything
        self.sums = NoSums() if sums is None else sums
        self.may_refuse = retention.may_refuse
        self.flush_rows = flush_rows  # taking elements in costs some 5 ms
        self._none = LevelSample.empty(self.capacity, self.elements.distinct, retention.columns)

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """Return keys without elements; merging is exact, so its levels have no effect."""
        return State(
            self.intake.empty(size, first_stream), Samples(self._none, *self.retention.empty(size))
        )

    # --- update ---

    def check(self, size: int | None, **arguments: Any) -> Columns:
        """Return columns of checked arguments."""
        return self.intake.check(size, **arguments)

    def check_row(self, tally: Any, last: Any, *arguments: Any) -> Any:
        """Return a checked row; what came before does not matter."""
        return self.intake.check_row(*arguments)

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """Return the rows with their coins, as columns, and the tally with them."""
        return self.intake.stack(tally, rows)

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """Return the rows with their coins, without those that do not count, and the tally."""
        return self.intake.admit(tally, keys, columns)

    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> Samples:
        """Return the samples and sums with the rows, without what no window reaches any more."""
        tally = state.tally
        if tally.size > 1 and keys.size >= tally.size * self.retention.block:
            return self._absorbed_apart(state, keys, columns)
        cells = self.sums.with_rows(tally, state.body.cells, keys, columns)
        body = self.retention.moved(tally, state.body, keys, columns)
        placing = self.retention.placing(tally, body)
        # With less than its samples hold together no edge would rise.
        least = max(_ABSORB, min(body.counts.size * self.capacity, _MOST_SURVIVORS))
        keys = _ONLY_KEY if tally.size == 1 else keys
        blocks = self._drawn(blocks_of(keys, columns, self.retention.block))
        return replace(body, sample=taken_in(body.sample, placing, blocks, least), cells=cells)

    def _drawn(self, blocks: Blocks) -> Blocks:
        """Yield blocks with the coins of each of the samples of a key, and the samples' keys."""
        for keys, rows in blocks:
            draws = self.elements.draws(rows)
            for draw, drawn in enumerate(draws):
                yield (keys * len(draws) + draw if len(draws) > 1 else keys), drawn

    def _absorbed_apart(self, state: State, keys: Int64Array, columns: Columns) -> Samples:
        """Absorb key by key, where each has many rows: what is made for one stays in the cache."""
        order, bounds = stable_order(keys), offsets(np.bincount(keys, minlength=state.tally.size))
        parts = zip(state.tally.split(), state.body.split(), pairwise(bounds.tolist()), strict=True)
        bodies = []
        for tally, body, (begin, end) in parts:
            rows = order[begin:end]
            own = tuple(column[rows] for column in columns)
            bodies.append(self.absorb(State(tally, body), only_key(rows.size), own))
        return Samples.joined(bodies)

    # --- merge ---

    def merge(self, state: State, into: Int64Array, size: int) -> State:
        """Return the samples of the unions."""
        body = state.body
        if self.draws_coins and self.retention.is_sampled:
            coins.check_shared(state.tally, into, body.owners(), self.retention.times(body.sample))
        tally = self.intake.merge(state.tally, into, size)
        joint = self.retention.joint(tally, body, into, size)
        placing = self.retention.placing(tally, joint)
        merged = placing.pruned(joint.sample.united(placing.cutoff))
        cells = self.sums.merged(tally, body.cells, into)
        return State(tally, Samples(merged, joint.counts, joint.labels, cells))

    def finalize(self, state: State, prototype: State) -> State:
        """Take the prototype's stream number for keys whose coins came from no stream."""
        if not self.draws_coins:
            return state
        return State(coins.finalized(state.tally, prototype.tally), state.body)

    def guarantee(self, state: State) -> FloatArray:
        """Return the same error for all keys, since merging costs nothing."""
        return np.full(state.tally.size, self.promise())

    def what_was_seen(self, state: State) -> list[str]:
        """Return a text with how much was seen or is kept, and the latest time."""
        return self.intake.what_was_seen(state.tally, self.retention.kept(state.body))

    # --- bytes ---

    def write(self, state: State, writer: RecordWriter) -> None:
        """Write the records that :mod:`recency.samples.records` describes, then sums."""
        tally, body = state
        states = SampleStates(
            body.sample,
            tally.seen,
            tally.known_latest,
            tuple(getattr(tally, name) for name in self.intake.numbers),
            tuple(getattr(tally, name) for name in self.intake.flags),
        )
        self.retention.write(states, body, writer)
        self.sums.write(tally, body.cells, body.sample, writer)

    def read(self, reader: RecordReader) -> State:
        """Read what :meth:`write` wrote; refuse what no stream leads to."""
        states = self.retention.read(self._none, self.intake, reader)
        _refuse(reader.name, self.elements.flaw(states.sample))
        _refuse(reader.name, self.intake.flaw(states, self.capacity))
        tally = self.intake.tally(states)
        body, flaw = self.retention.restored(tally, states)
        _refuse(reader.name, flaw)
        cells = self.sums.read(tally, body.sample, reader)
        _refuse(reader.name, self.sums.flaw(tally, cells, body.sample))
        return State(tally, replace(body, cells=cells))


def blocks_of(keys: Int64Array, columns: Columns, size: int) -> Blocks:
    """Yield rows in blocks, the last block first; a single key stands for all rows."""
    for end in range(columns[0].size, 0, -size):
        block = slice(max(0, end - size), end)
        yield keys if keys.size == 1 else keys[block], tuple(column[block] for column in columns)


def taken_in(sample: LevelSample, placing: Placing, blocks: Blocks, least: int) -> LevelSample:
    """Return a sample with rows taken in, ``least`` elements or more at once but for the last.

    Mostly the first blocks are the newest, and raise the edges that thin the rest.
    """
    none = sample.only(_NO_ROWS)
    empty = none.groups, none.times, none.columns

    def absorbed(placed: list[Placed]) -> LevelSample:
        groups, times, payload = zip(empty, *placed, strict=True)
        columns = tuple(map(np.concatenate, zip(*payload, strict=True)))
        return placing.pruned(
            sample.absorb(np.concatenate(groups), np.concatenate(times), columns, placing.cutoff)
        )

    edges, survivors, waiting = placing.edges(sample), list[Placed](), 0
    for keys, rows in blocks:
        survivors.append(placing.place(edges, keys, rows))
        waiting += survivors[-1][1].size
        if waiting >= max(least, sample.times.size // 2):
            sample = absorbed(survivors)
            edges, survivors, waiting = placing.edges(sample), [], 0
    return absorbed(survivors)


def _refuse(name: str, flaw: str | None) -> None:
    if flaw is not None:
        corrupt(name, flaw)


def matching(where: Callable[..., Any], *columns: Any) -> BoolArray:
    """Return which rows a predicate of columns chooses; refuse other answers of it."""
    size = columns[0].size
    matches = np.asarray(where(*columns))
    if not size and not matches.size:
        return np.zeros(0, dtype=np.bool_)
    if matches.dtype != np.bool_:
        raise TypeError(f"where must return booleans, got {matches.dtype}")
    if matches.shape != (size,):
        raise ValueError(f"where must return one for each of {size}, got {matches.shape}")
    return matches
