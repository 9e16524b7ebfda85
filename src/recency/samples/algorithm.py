"""What all sketches on a level sample do with rows; what differs are the parts they are made of.

- An **intake** makes rows of arguments: it checks them, draws coins, and counts (the tally). The
  first two columns of a row are its coin and its time.
- **Elements** are what is kept of rows: at which level, and with what payload.
- A **retention** says which elements a level keeps: the latest, or those that expire last.
- **Sums** say what else is kept: nothing, or exact sums by age (see :mod:`recency.core.age_cells`).

Times may come in any order, and merging is exact: the state is a function of the set of elements
(see :mod:`recency.core.level_sample`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from recency.algorithm import Admitted, Algorithm, Columns, PerKey, State
from recency.core.arrays import BoolArray, FloatArray, Int64Array, offsets, stable_order
from recency.core.codec import RecordReader, RecordWriter, corrupt
from recency.core.level_sample import LevelSample
from recency.core.samples import Samples
from recency.keyed import only_key
from recency.samples.age_sums import NoSums, Sums
from recency.samples.records import ColumnCodec, SampleStates

_ABSORB = 1 << 14  # survivors collected, at least, before the sample takes them in
_MOST_SURVIVORS = 1 << 18
_ONLY_KEY = np.zeros(1, dtype=np.int64)

Placed = tuple[Int64Array, Int64Array, Columns]
"""Elements: groups, times (or what takes their place), payload."""


class Intake(Protocol):
    """Makes rows of arguments, and counts."""

    numbers: tuple[str, ...]
    """The fields of the tally that are written with each sketch, but for ``latest``."""
    draws_coins: bool
    """Whether events draw coins from a stream, unless they have ids."""
    flags: tuple[str, ...]
    """The fields of the tally that are written as bits of one number."""

    def empty(self, size: int, first_stream: int) -> PerKey:
        """The tally of keys that have seen nothing."""
        ...

    def tally(self, latest: Int64Array, numbers: tuple[Int64Array, ...], flags: Any) -> PerKey:
        """The tally with what was written."""
        ...

    @property
    def check(self) -> Callable[..., Columns]:
        """See :meth:`Algorithm.check`."""
        ...

    @property
    def check_row(self) -> Callable[..., Any]:
        """One checked row, of its arguments."""
        ...

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """See :meth:`Algorithm.stack`."""
        ...

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """See :meth:`Algorithm.admit`; the columns are those of rows then."""
        ...

    def merge(self, tally: Any, into: Int64Array, size: int) -> PerKey:
        """See :meth:`Algorithm.merge`."""
        ...

    def finalize(self, tally: Any, prototype: Any) -> PerKey:
        """See :meth:`Algorithm.finalize`."""
        ...

    def check_merge(
        self, tally: Any, into: Int64Array, owners: Int64Array, times: Int64Array
    ) -> None:
        """Warn if merging costs what was promised; elements are of ``owners``."""
        ...

    def flaw(self, states: SampleStates, capacity: int) -> str | None:
        """What is wrong with states that were read, if anything."""
        ...

    def what_was_seen(self, tally: Any, kept: Int64Array) -> list[str]:
        """See :meth:`Algorithm.what_was_seen`; ``kept`` is what the retention says of each key."""
        ...


class Elements(Protocol):
    """What is kept of rows."""

    distinct: bool
    """Whether elements have an identity (the first column of their payload) and count once."""
    level_range: tuple[int, int]
    codecs: Sequence[ColumnCodec]
    """How the payload is written."""

    def draws(self, rows: Columns) -> Sequence[Columns]:
        """The rows with the coins that each of the samples of a sketch draws."""
        ...

    def levels(self, rows: Columns) -> Int64Array:
        """The level of each row."""
        ...

    def payload(self, rows: Columns, levels: Int64Array) -> Columns:
        """What is kept besides the time."""
        ...

    def thinned(self, placed: Placed) -> Placed:
        """Without elements that others make superfluous, if that is cheap to tell."""
        ...

    def flaw(self, sample: LevelSample) -> str | None:
        """What is wrong with a sample that was read, if anything."""
        ...


class Placing(Protocol):
    """Where elements go, as of some clocks."""

    @property
    def cutoff(self) -> Int64Array:
        """For each sample, the last time (or what takes its place) that no question reaches."""
        ...

    def edges(self, sample: LevelSample) -> Any:
        """What :meth:`place` has to know of a sample."""
        ...

    def place(self, edges: Any, keys: Int64Array, rows: Columns) -> Placed:
        """What rows bring to the samples of their keys, without most of what these would not keep.

        A single key stands for all rows.
        """
        ...

    def pruned(self, sample: LevelSample) -> LevelSample:
        """The sample without levels that are of no use any more."""
        ...


class Retention(Protocol):
    """Which elements a level keeps."""

    block: int
    """Rows looked at in one pass: temporaries that stay in the cache."""

    @property
    def columns(self) -> Sequence[Any]:
        """The types of the columns of elements."""
        ...

    @property
    def may_refuse(self) -> Callable[[Any, Any, int], bool] | None:
        """See :attr:`Algorithm.may_refuse`; :meth:`moved` and :meth:`joint` do it."""
        ...

    def empty(self, size: int) -> tuple[Int64Array, Columns]:
        """How many samples each of ``size`` empty keys has, and labels of them."""
        ...

    def moved(self, tally: Any, body: Samples, keys: Int64Array, rows: Columns) -> Samples:
        """The body as it has to be for rows to come in."""
        ...

    def joint(self, tally: Any, body: Samples, into: Int64Array, size: int) -> Samples:
        """The body where key i has the number ``into[i]``, with the tally of these.

        Samples that have one number then are merged afterwards.
        """
        ...

    def placing(self, tally: Any, body: Samples) -> Placing:
        """Where elements go now."""
        ...

    def kept(self, body: Samples) -> Int64Array:
        """How many elements, or buckets of them, each sketch has."""
        ...

    def times(self, sample: LevelSample) -> Int64Array:
        """The times of events."""
        ...

    def write(
        self,
        states: SampleStates,
        body: Samples,
        codecs: Sequence[ColumnCodec],
        writer: RecordWriter,
    ) -> None:
        """A record for each key."""
        ...

    def read(
        self,
        empty: LevelSample,
        elements: Elements,
        intake: Intake,
        reader: RecordReader,
    ) -> SampleStates:
        """The inverse, as it was written."""
        ...

    def restored(self, tally: Any, states: SampleStates) -> tuple[Samples, str | None]:
        """The body, and what is wrong with it, if anything."""
        ...


class SampleAlgorithm(Algorithm):
    """The body is a level sample of each key, or several."""

    merge_law = "exact"

    def __init__(
        self,
        intake: Intake,
        elements: Elements,
        retention: Retention,
        *,
        capacity: int,
        window: int | None,
        unit: str | None,
        confidence: float,
        promise: Callable[[], float],
        flush_rows: int = 1 << 18,
        reading: Any = None,
        sums: Sums | None = None,
    ) -> None:
        self.intake, self.elements, self.retention = intake, elements, retention
        self.capacity, self.window, self.unit = capacity, window, unit
        self.confidence, self.promise = confidence, promise
        self.draws_coins = intake.draws_coins
        self.reading = reading  # what questions need besides, if anything
        self.sums = NoSums() if sums is None else sums
        self.may_refuse = retention.may_refuse
        self.flush_rows = flush_rows  # taking elements in costs some 5 ms
        self._none = LevelSample.empty(capacity, elements.distinct, retention.columns)

    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """Merging is exact, so its levels have no effect."""
        return State(
            self.intake.empty(size, first_stream), Samples(self._none, *self.retention.empty(size))
        )

    # --- update ---

    def check(self, size: int | None, **arguments: Any) -> Columns:
        """As the intake does."""
        return self.intake.check(size, **arguments)

    def check_row(self, tally: Any, last: Any, *arguments: Any) -> Any:
        """Nothing is refused for what came before."""
        return self.intake.check_row(*arguments)

    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """As the intake does."""
        return self.intake.stack(tally, rows)

    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """As the intake does."""
        return self.intake.admit(tally, keys, columns)

    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> Samples:
        """Last rows first: mostly they are the newest, and raise the edges that thin the rest."""
        tally = state.tally
        if tally.size > 1 and keys.size >= tally.size * self.retention.block:
            return self._absorbed_apart(state, keys, columns)
        cells = self.sums.with_rows(tally, state.body.cells, keys, columns)
        body = self.retention.moved(tally, state.body, keys, columns)
        placing = self.retention.placing(tally, body)
        sample, edges, is_one = body.sample, placing.edges(body.sample), tally.size == 1
        # With less than its samples hold together no edge would rise.
        least = max(_ABSORB, min(body.counts.size * self.capacity, _MOST_SURVIVORS))
        survivors: list[Placed] = []
        waiting, end = 0, keys.size
        while end > 0:
            begin = max(0, end - self.retention.block)
            rows = tuple(column[begin:end] for column in columns)
            of_rows = _ONLY_KEY if is_one else keys[begin:end]
            draws = self.elements.draws(rows)
            for draw, drawn in enumerate(draws):
                of_draw = of_rows * len(draws) + draw if len(draws) > 1 else of_rows
                placed = placing.place(edges, of_draw, drawn)
                survivors.append(placed)
                waiting += placed[1].size
            if waiting >= max(least, sample.times.size // 2):
                sample = self._absorbed(sample, survivors, placing)
                edges, survivors, waiting = placing.edges(sample), [], 0
            end = begin
        return replace(body, sample=self._absorbed(sample, survivors, placing), cells=cells)

    def _absorbed_apart(self, state: State, keys: Int64Array, columns: Columns) -> Samples:
        """Key by key, where each has many rows: what is made for one stays in the cache."""
        order, bounds = stable_order(keys), offsets(np.bincount(keys, minlength=state.tally.size))
        parts = zip(state.tally.split(), state.body.split(), pairwise(bounds.tolist()), strict=True)
        bodies = []
        for tally, body, (begin, end) in parts:
            rows = order[begin:end]
            own = tuple(column[rows] for column in columns)
            bodies.append(self.absorb(State(tally, body), only_key(rows.size), own))
        return Samples.joined(bodies)

    def _absorbed(self, sample: LevelSample, blocks: list[Placed], placing: Placing) -> LevelSample:
        blocks = [*blocks, (self._none.groups, self._none.times, self._none.columns)]
        groups, times, payload = zip(*blocks, strict=True)
        columns = tuple(np.concatenate(column) for column in zip(*payload, strict=True))
        return placing.pruned(
            sample.absorb(np.concatenate(groups), np.concatenate(times), columns, placing.cutoff)
        )

    # --- merge ---

    def merge(self, state: State, into: Int64Array, size: int) -> State:
        """The sample of the union."""
        body = state.body
        owners = body.owners()
        self.intake.check_merge(state.tally, into, owners, self.retention.times(body.sample))
        tally = self.intake.merge(state.tally, into, size)
        joint = self.retention.joint(tally, body, into, size)
        placing = self.retention.placing(tally, joint)
        merged = placing.pruned(joint.sample.united(placing.cutoff))
        cells = self.sums.merged(tally, body.cells, into)
        return State(tally, Samples(merged, joint.counts, joint.labels, cells))

    def finalize(self, state: State, prototype: State) -> State:
        """As the intake does."""
        return State(self.intake.finalize(state.tally, prototype.tally), state.body)

    def guarantee(self, state: State) -> FloatArray:
        """The same for all: merging costs nothing."""
        return np.full(state.tally.size, self.promise())

    def what_was_seen(self, state: State) -> list[str]:
        """As the intake says."""
        return self.intake.what_was_seen(state.tally, self.retention.kept(state.body))

    # --- bytes ---

    def write(self, state: State, writer: RecordWriter) -> None:
        """See :mod:`recency.samples.records`."""
        tally, body = state
        states = SampleStates(
            body.sample,
            tally.seen,
            tally.known_latest,
            tuple(getattr(tally, name) for name in self.intake.numbers),
            tuple(getattr(tally, name) for name in self.intake.flags),
        )
        self.retention.write(states, body, self.elements.codecs, writer)
        self.sums.write(tally, body.cells, body.sample, writer)

    def read(self, reader: RecordReader) -> State:
        """The inverse."""
        states = self.retention.read(self._none, self.elements, self.intake, reader)
        _refuse(reader.name, self.elements.flaw(states.sample))
        _refuse(reader.name, self.intake.flaw(states, self.capacity))
        latest = np.where(states.seen, states.latest, PerKey.start["latest"])
        tally = self.intake.tally(latest, states.extra, states.flags)
        body, flaw = self.retention.restored(tally, states)
        _refuse(reader.name, flaw)
        cells = self.sums.read(tally, body.sample, reader)
        _refuse(reader.name, self.sums.flaw(tally, cells, body.sample))
        return State(tally, replace(body, cells=cells))


def _refuse(name: str, flaw: str | None) -> None:
    if flaw is not None:
        corrupt(name, flaw)


def matching(where: Callable[..., Any], *columns: Any) -> BoolArray:
    """Which rows a predicate of columns chooses, if it answers as it should."""
    size = columns[0].size
    matches = np.asarray(where(*columns))
    if not size and not matches.size:
        return np.zeros(0, dtype=np.bool_)
    if matches.dtype != np.bool_:
        raise TypeError(f"where must return booleans, got {matches.dtype}")
    if matches.shape != (size,):
        raise ValueError(f"where must return one for each of {size}, got {matches.shape}")
    return matches
