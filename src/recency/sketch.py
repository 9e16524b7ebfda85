"""The contract of every sketch, and what works on any of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeVar

import numpy as np

from recency.algorithm import Algorithm
from recency.core import validate
from recency.core.rank_log import MOST_LEVELS
from recency.errors import IncompatibleSketchError
from recency.estimate import Estimate
from recency.keyed import Keyed, joined
from recency.serialization import (
    Frame,
    decode_many,
    encode_keyed,
    encode_many,
    loads,
    register,
    unpickled,
)

__all__ = ["Sketch", "decode_many", "encode_many", "loads", "merge_all"]

_S = TypeVar("_S", bound="Sketch")

_unpickled = unpickled  # as pickles of 0.1 name it


@dataclass(frozen=True)
class NoSettings:
    """The configuration of sketches that have no settings."""


class Sketch:
    """A mergeable summary of a stream of timed events.

    ``update`` and ``update_many`` add events, ``merge`` adds another sketch, and ``query`` returns
    an :class:`~recency.Estimate`. The state depends only on what was added, and questions never
    change it. A call that raises or is interrupted leaves the sketch as it was before. Several
    threads may read a sketch while none writes.

    These parameters mean the same in every sketch:

    at
        Time of an event: an integer in ticks or, with ``unit``, an aware ``datetime`` or a
        ``numpy.datetime64``, which are rounded down to the unit.
    window
        Width of the window (now − window, now] of a question, in ticks or, with ``unit``, a
        duration such as ``"90 minutes"``. None: the constructor's ``window``. A width larger than
        that is a ``ValueError``.
    now
        End of the window, included. None: ``latest``, never the wall clock. A time before
        ``latest`` is a ``ValueError``.

    To write a class of sketches, declare ``family`` and ``config_class``. The constructor sets
    ``config`` and passes the algorithm to ``super().__init__``. ``update`` passes the arguments of
    ``update_many``, in their order, to ``self._keyed.add_row``. ``update_many`` passes them as
    ``self._keyed.update_many(None, {name: column, …})``. Declare questions with
    :func:`recency.extending.question`.
    """

    config: Any = NoSettings()
    """Frozen dataclass: what two sketches must share to merge. Its fields are the parameters of
    the constructor."""

    config_class: ClassVar[type] = NoSettings
    """The class of ``config``."""

    family: ClassVar[int]
    """Number of the class in the byte format: 128 to 255 outside this package."""

    _keyed: Keyed

    def __init__(self, algorithm: Algorithm, stream: int = 0) -> None:
        self._keyed = Keyed(algorithm, 1, first_stream=validate.integer(stream, "stream", 0))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Concrete classes are found by family when bytes are read."""
        super().__init_subclass__(**kwargs)
        if "family" in cls.__dict__:
            register(cls)

    # --- to be written by each sketch ---

    update: Callable[..., None]
    """Add one event."""

    update_many: Callable[..., None]
    """Add one event per row: the parameters of ``update`` as arrays; scalars are broadcast."""

    query: Callable[..., Any]
    """Answer the main question with an :class:`~recency.Estimate`."""

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        """Settings that may be None in the constructor, but never are in a configuration."""
        return ("capacity",)

    # --- the same for all ---

    @property
    def _algorithm(self) -> Any:
        return self._keyed.algorithm

    @property
    def merge_law(self) -> Literal["exact", "bounded"]:
        """``"exact"`` or ``"bounded"``.

        ``"exact"``: any tree of merges of the same parts gives the same bytes. ``"bounded"``: each
        level of merging increases the error, and ``guarantee`` includes that.
        """
        law: Literal["exact", "bounded"] = self._algorithm.merge_law
        return law

    @property
    def needs_order(self) -> bool:
        """Whether events must arrive in time order; rows of one ``update_many`` never need to."""
        return bool(self._algorithm.needs_order)

    @property
    def latest(self) -> int | None:
        """The latest time seen, in ticks; None when empty."""
        tally = self._keyed.tally
        return int(tally.latest[0]) if tally.seen[0] else None

    @property
    def guarantee(self) -> float:
        """The error bound that holds now, merging included; infinite if there is none.

        It is relative unless the docstring of the class says otherwise.
        """
        return float(self._algorithm.guarantee(self._keyed.state())[0])

    @property
    def is_empty(self) -> bool:
        """Whether no event was ever added."""
        return self.latest is None

    @property
    def nbytes(self) -> int:
        """Length of :meth:`to_bytes`."""
        return len(self.to_bytes())

    def empty_like(self, merge_levels: int = 0, stream: int | None = None) -> Self:
        """Return a new sketch of the same configuration, without events.

        Parameters
        ----------
        merge_levels
            How many levels of merging the new sketch should allow for: a merge tree of that depth,
            built from such sketches, still meets the configured error. Has no effect where merging
            is exact.
        stream
            Stream number of the new sketch; None: that of this one. Sketches whose events draw
            coins, and that will be merged, need different numbers. Has no effect elsewhere.
        """
        levels = validate.integer(merge_levels, "merge_levels", 0, MOST_LEVELS)
        first = self._stream if stream is None else validate.integer(stream, "stream", 0)
        return self._with(Keyed(self._algorithm, 1, levels, first))

    @property
    def _stream(self) -> int:
        """The stream that events draw their coins from; 0 if they draw none."""
        stream = getattr(self._keyed.tally, "stream", None)
        return 0 if stream is None else int(stream[0])

    def _with(self, keyed: Keyed) -> Self:
        """A sketch like this one in another state."""
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        twin._keyed = keyed
        return twin

    def copy(self) -> Self:
        """Return an independent sketch in the same state."""
        return self._with(Keyed.of(self._algorithm, self._keyed.state()))

    def merge(self, other: Self) -> Self:
        """Add the events of another sketch, in place; ``other`` is not changed.

        The result is as if this sketch had seen the events of both, exactly or within
        ``guarantee``, as ``merge_law`` says. Merging with an empty sketch changes nothing.

        Returns
        -------
        Self
            This sketch.

        Raises
        ------
        IncompatibleSketchError
            If class or configuration differ, or if such sketches cannot be merged at all (windows
            by count).
        """
        self._check_mergeable(other)
        self._keyed = _merged([self, other])
        return self

    def _check_mergeable(self, other: object) -> None:
        self._check_alike(other, "merge")
        if self._algorithm.unmergeable:
            refuse_merge(type(self).__name__, self._algorithm.unmergeable)

    def _check_alike(self, other: object, verb: str) -> None:
        """Refuse to combine with what has another class or configuration."""
        name = type(self).__name__
        if not isinstance(other, Sketch):
            raise TypeError(f"cannot {verb} {name}: the other is a {type(other).__name__}")
        if type(other) is not type(self):
            refuse_merge(name, f"the other is a {type(other).__name__}", verb)
        for field in fields(self.config):
            mine = getattr(self.config, field.name)
            theirs = getattr(other.config, field.name)
            if mine != theirs:
                refuse_merge(name, f"{field.name} differs ({mine} vs {theirs})", verb)

    def _finalize(self, prototype: Self) -> None:
        """Become what a user of ``prototype`` expects of a sketch that was built in parts."""
        self._keyed = self._keyed.finalized(prototype._keyed)

    def _ask(self, answer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The answer of a question to the only key."""
        given = answer(self._keyed.view(), *args, **kwargs)
        if not isinstance(given, Estimate):
            return given
        # Of n keys the answers are in the first dimension; there may be more, as of many items.
        value, lower, upper = (_first(each) for each in (given.value, given.lower, given.upper))
        confidence = np.asarray(given.confidence)  # mostly one number for all that was asked
        if confidence.size == 1:
            return Estimate(value, lower, upper, confidence.item())
        return Estimate(value, lower, upper, _first(confidence))

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes: equal states give equal bytes, on every machine."""
        return encode_keyed(self, self._keyed)[0]

    @classmethod
    def from_bytes(cls, data: Frame) -> Self:
        """Read a sketch of this class from what :meth:`to_bytes` returned.

        Raises
        ------
        CorruptSketchError
            If ``data`` is anything else.
        """
        if "family" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} has no bytes of its own: use recency.loads")
        sketch = decode_many([data], expected=cls)[0]
        assert isinstance(sketch, cls)
        return sketch

    def __reduce__(self) -> tuple[Callable[..., "Sketch"], tuple[type["Sketch"], bytes]]:
        """Pickle as bytes; the class goes along, so that they can be read where it is not known."""
        return unpickled, (type(self), self.to_bytes())

    def __copy__(self) -> Self:
        """:meth:`copy`: nothing is shared that can change."""
        return self.copy()

    def __deepcopy__(self, memo: object) -> Self:
        """:meth:`copy`."""
        return self.copy()

    def __eq__(self, other: object) -> bool:
        """Whether class, configuration and state are equal."""
        if not isinstance(other, Sketch):
            return NotImplemented
        if type(self) is not type(other) or self.config != other.config:
            return False
        mine, theirs = (sketch._keyed.records().numbers()[0] for sketch in (self, other))
        return bool(np.array_equal(mine, theirs))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Class, guarantee, window, what was seen, bytes."""
        try:
            size = f"{self.nbytes} bytes"
        except ValueError:  # a configuration that cannot be written
            size = "not for bytes"
        return descriptions(self, self._keyed, [size])[0]


def _first(field: Any) -> Any:
    if np.ndim(field) == 0:
        return field
    return field.item() if field.ndim == 1 else field[0]


def descriptions(prototype: Sketch, keyed: Keyed, sizes: Sequence[str]) -> list[str]:
    """``repr`` of sketches like the prototype: class, guarantee, window, what was seen, bytes."""
    name, algorithm, state = type(prototype).__name__, keyed.algorithm, keyed.state()
    unit = algorithm.unit or ("ticks" if algorithm.has_clock else "updates")
    window = "unbounded" if algorithm.window is None else f"{algorithm.window} {unit}"
    return [
        f"{name}(guarantee={guarantee:.4g}, window={window}, {what if seen else 'empty'}, {size})"
        for guarantee, seen, what, size in zip(
            algorithm.guarantee(state).tolist(),
            state.tally.seen.tolist(),
            algorithm.what_was_seen(state),
            sizes,
            strict=True,
        )
    ]


def refuse_merge(name: str, reason: str, verb: str = "merge") -> NoReturn:
    """Refuse to combine sketches, in the one wording used everywhere."""
    raise IncompatibleSketchError(f"cannot {verb} {name}: {reason}")


def merge_all(sketches: Iterable[_S]) -> _S:
    """Return a new sketch with the events of all ``sketches``, which are not changed.

    Where merging is bounded, this is one level of merging, however many sketches there are.

    Raises
    ------
    ValueError
        If there are no sketches.
    IncompatibleSketchError
        If their classes or configurations differ, or if they cannot be merged (windows by count).
    """
    operands = list(sketches)
    if not operands:
        raise ValueError("merge_all needs at least one sketch")
    if not isinstance(operands[0], Sketch):
        raise TypeError(f"merge_all takes sketches, got {type(operands[0]).__name__}")
    for other in operands[1:]:
        operands[0]._check_mergeable(other)
    return operands[0]._with(_merged(operands))


def _merged(sketches: Sequence[Sketch]) -> Keyed:
    together = joined([sketch._keyed for sketch in sketches])
    return together.merged(np.zeros(len(sketches), dtype=np.int64), 1)
