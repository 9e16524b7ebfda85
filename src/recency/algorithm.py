"""What a sketch is made of: an algorithm, and the state of one or many keys.

An **algorithm** is what the settings of a sketch mean: pure functions over arrays. The **state** of
n keys is a *tally*, arrays of length n that move with every row (the latest time, totals), and a
*body*, what the algorithm keeps of the rows (a log, a sample). Neither is ever written to: an
update makes new ones. Rows are buffered in between, by :class:`recency.keyed.Keyed`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import INT64_MIN, BoolArray, FloatArray, Int64Array, cutoffs
from recency.core.codec import RecordReader, RecordWriter
from recency.timeunit import to_duration, to_tick

NEVER = INT64_MIN
"""The latest time of a key that has seen nothing: no row can have this time."""

Columns = tuple[NDArray[Any], ...]
"""Arrays of equal lengths."""


@dataclass(frozen=True, eq=False)
class PerKey:
    """The base of every tally: arrays with one element for each key.

    A subclass is a frozen dataclass (``eq=False``) with more such fields. None is ever written to.
    """

    latest: Int64Array
    start: ClassVar[Mapping[str, Any]] = {"latest": NEVER}
    """What fields are for a key that has seen nothing, and so of which type; 0 if not here."""

    @classmethod
    def empty(cls, size: int) -> Self:
        """The tally of keys that have seen nothing."""
        return cls(*(np.full(size, cls.start.get(field.name, 0)) for field in fields(cls)))

    @classmethod
    def joined(cls, tallies: Sequence[Self]) -> Self:
        """The keys of several tallies one after the other."""
        return cls(*map(np.concatenate, zip(*map(_columns, tallies), strict=True)))

    def take(self, keys: Int64Array) -> Self:
        """The tally of some keys."""
        return type(self)(*(column[keys] for column in _columns(self)))

    def split(self) -> list[Self]:
        """A tally for each key."""
        cuts = ([column[i : i + 1] for i in range(self.size)] for column in _columns(self))
        return [type(self)(*each) for each in zip(*cuts, strict=True)]

    @property
    def size(self) -> int:
        """How many keys there are."""
        return self.latest.size

    @property
    def seen(self) -> BoolArray:
        """Which keys have seen anything."""
        seen: BoolArray = self.latest != NEVER
        return seen

    @property
    def known_latest(self) -> Int64Array:
        """The latest time of each key; 0 where nothing was seen."""
        return np.where(self.seen, self.latest, 0)


def _columns(tally: PerKey) -> list[NDArray[Any]]:
    return list(vars(tally).values())  # in the order of the fields


class State(NamedTuple):
    """The tally and the body of some keys, all of whose rows have been absorbed."""

    tally: Any
    body: Any


class Admitted(NamedTuple):
    """Rows that were let in, with the key of each, and the tally of all keys that counts them."""

    tally: Any
    keys: Int64Array
    columns: Columns


class Algorithm(ABC):
    """What sketches of one configuration do with rows; no method changes anything.

    Rows pass three steps: :meth:`check` makes columns of arguments, :meth:`admit` counts them in
    the tally, or refuses them, and :meth:`absorb` puts them into the body, some later. What comes
    out must not depend on how rows were cut into batches.

    A body has ``take(keys)``, ``split()`` and ``joined(bodies)`` as a tally does; ``entries``, how
    many elements it keeps; and ``nbytes``, the memory that they take.
    """

    merge_law: Literal["exact", "bounded"]
    """``"exact"``: any tree of merges of the same parts leads to the same bytes. ``"bounded"``:
    merging costs accuracy, and ``guarantee`` says how much."""

    needs_order: bool = False
    """Whether rows must come in time order, but for those of one ``update_many``."""

    unmergeable: str | None = None
    """Why sketches of this configuration cannot be merged, if they cannot."""

    draws_coins: bool = False
    """Whether events draw coins from a stream, unless they have ids."""

    has_clock: bool = True
    """Whether windows are of time, not of a number of updates."""

    window: int | None = None
    """The largest window in ticks; None for no bound."""

    unit: str | None = None
    """The unit of time; None for plain integers."""

    flush_rows: int = 1 << 16
    """How many rows are buffered before they are absorbed: a kernel call costs some 100 µs."""

    preview_rows: int = -1
    """Up to how many buffered rows of a single key are questions answered by :meth:`preview`."""

    may_refuse: Callable[[Any, Any, int], bool] | None = None
    """Called with a tally, a body and n: whether the body may have no room for the rows that the
    tally counts and the body does not have yet, and n more. These are then absorbed at once, so
    that the call they come with is refused. None if there is always room."""

    @abstractmethod
    def empty(self, size: int, merge_levels: int = 0, first_stream: int = 0) -> State:
        """The state of keys that have seen nothing.

        With ``merge_levels`` they are kept tightly enough for a tree of that many levels of merging
        to meet the error asked for. Key i draws its coins from stream ``first_stream`` + i.
        """

    @abstractmethod
    def check(self, size: int | None, *args: Any, **arguments: Any) -> Columns:
        """The arguments of ``update_many`` as columns of ``size`` rows (None: of their own length).

        Depends on nothing that was seen before. Its parameters are those of ``update_many``.
        """

    @abstractmethod
    def check_row(self, tally: Any, last: Any, *arguments: Any) -> Any:
        """One checked row of a single key, to be stacked later.

        A row that another follows carries what is counted up to it; ``last`` is the row before, or
        None: then ``tally`` says what was counted.
        """

    @abstractmethod
    def stack(self, tally: Any, rows: Sequence[Any]) -> Admitted:
        """Rows of a single key that were checked when they came, as columns that are let in."""

    @abstractmethod
    def admit(self, tally: Any, keys: Int64Array, columns: Columns) -> Admitted:
        """Let in checked rows, or refuse all of them, given what was counted before."""

    @abstractmethod
    def absorb(self, state: State, keys: Int64Array, columns: Columns) -> Any:
        """The body with rows that the tally has counted; what no window reaches any more is gone.

        There may be no rows. The body holds no view of the columns, whose memory is used again.
        """

    def preview(self, state: State, columns: Columns) -> Any:
        """What answers questions as the body of :meth:`absorb` does, for much less.

        Of a single key, with ``preview_rows`` or fewer.
        """
        raise NotImplementedError

    @abstractmethod
    def merge(self, state: State, into: Int64Array, size: int) -> State:
        """The state of ``size`` keys, where key i is merged into key ``into[i]``; each gets some.

        A key that comes alone stays as it is, and so does one that comes with empty ones.
        """

    def finalize(self, state: State, prototype: State) -> State:
        """The state as a user of ``prototype`` (an empty key) expects it.

        What served the building in parts alone, such as extra tightness, is given up.
        """
        return state

    @abstractmethod
    def guarantee(self, state: State) -> FloatArray:
        """The error promised for each key, merging included."""

    @abstractmethod
    def write(self, state: State, writer: RecordWriter) -> None:
        """A record for each key."""

    @abstractmethod
    def read(self, reader: RecordReader) -> State:
        """The inverse of :meth:`write`; refuses what no stream leads to."""

    def what_was_seen(self, state: State) -> list[str]:
        """For ``repr``, what each key says of its stream."""
        return described("latest={}", state.tally.latest)

    def cutoff(self, tally: Any) -> Int64Array:
        """For each key, the last time that no window reaches."""
        return cutoffs(tally.latest, self.window)


def described(text: str, *columns: NDArray[Any]) -> list[str]:
    """The text for each key, with the values that it has in the columns filled in."""
    lists = (column.tolist() for column in columns)
    return [text.format(*values) for values in zip(*lists, strict=True)]


class View(NamedTuple):
    """What a question sees: the state of some keys, and the algorithm, which has the settings."""

    algorithm: Any
    state: State

    def now(self, now: Any) -> Int64Array:
        """The time that each key is asked at: its own latest, unless ``now`` is given."""
        latest: Int64Array = self.state.tally.latest
        if now is None:
            return np.where(latest == NEVER, 0, latest)
        tick = to_tick(now, self.algorithm.unit, "now")
        if latest.size and tick < latest.max():
            raise ValueError(
                f"now must not be before the latest time seen ({latest.max()}), got {tick}"
            )
        return np.full(latest.size, tick)

    def since(self, window: Any, now: Any) -> Int64Array:
        """For each key, the s of the window (s, now] that was asked for; checks both."""
        most = width = self.algorithm.window
        if window is not None:
            width = to_duration(window, self.algorithm.unit)
            if most is not None and width > most:
                raise ValueError(f"window must be in [1, {most}], got {width}")
        ticks = self.now(now)
        if width is None:
            return np.full(ticks.size, INT64_MIN)
        since: Int64Array = np.maximum(ticks, INT64_MIN + width) - width
        return since
