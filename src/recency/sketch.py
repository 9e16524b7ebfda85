"""The contract of every sketch, and what works on any of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, TypeVar

import numpy as np

from recency.core import codec
from recency.core.codec import RecordReader, RecordWriter
from recency.decay import Decay
from recency.errors import IncompatibleSketchError

if TYPE_CHECKING:
    from recency.column import Column

# Families of the byte format. Append only: a number is never given to another class.
FAMILIES: dict[int, str] = {
    1: "ExponentialHistogram",
    2: "DeterministicWave",
    3: "RandomizedWave",
    4: "SumWave",
    5: "QuantileWave",
    6: "NthRecentWave",
    7: "EcmSketch",
    8: "DecayedSample",
    9: "DyadicEcm",
    10: "WeightBasedMergingHistogram",
}
_classes: dict[int, type["Sketch"]] = {}

Frame = bytes | bytearray | memoryview

_S = TypeVar("_S", bound="Sketch")
_T = TypeVar("_T")
_K = TypeVar("_K")
_R = TypeVar("_R")


class Sketch(ABC):
    """A mergeable summary of a stream of timed events.

    ``update`` and ``update_many`` take events, ``merge`` takes another sketch, ``query`` answers.
    The state is a function of what was put in; asking never changes it. Sketches may be read from
    several threads only while none writes, and after one question has been answered: buffered
    updates are worked in by the first question.
    """

    config: Any
    """Frozen dataclass: what two sketches must share to merge. Its fields are the parameters of
    the constructor."""

    config_class: ClassVar[type]
    """The class of ``config``."""

    family: ClassVar[int]
    """Number of the class in the byte format."""

    merge_law: ClassVar[Literal["exact", "bounded"]]
    """``"exact"``: merging equals one pass over all events, to the byte. ``"bounded"``: merging
    costs accuracy, and ``guarantee`` says how much."""

    needs_order: bool = False
    """Whether events must come in time order, but for those of one ``update_many``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Concrete classes are found by family when bytes are read."""
        super().__init_subclass__(**kwargs)
        if "family" in cls.__dict__:
            _register(cls)

    # --- to be written by each sketch ---

    update: Callable[..., None]
    """One event."""

    update_many: Callable[..., None]
    """Many events: the parameters of ``update``, as arrays or as scalars for all."""

    query: Callable[..., Any]
    """The main question; an :class:`~recency.Estimate`."""

    @property
    @abstractmethod
    def latest(self) -> int | None:
        """The latest time seen, in ticks; None when empty."""

    @property
    @abstractmethod
    def guarantee(self) -> float:
        """The relative error promised now, merging included."""

    @abstractmethod
    def copy(self) -> Self:
        """An independent sketch in the same state."""

    @classmethod
    @abstractmethod
    def _merged(cls, sketches: Sequence[Self]) -> Self:
        """A new sketch of all events; operands (two or more, compatible) stay as they are."""

    @abstractmethod
    def _become(self, other: Self) -> None:
        """Take over the state of a sketch that nobody else holds."""

    @classmethod
    @abstractmethod
    def _write(cls, sketches: Sequence[Self], writer: RecordWriter) -> None:
        """The states of sketches of one configuration, one record each."""

    @classmethod
    @abstractmethod
    def _read(cls, prototype: Self, reader: RecordReader) -> list[Self]:
        """Sketches like the empty ``prototype``, one for each record."""

    @classmethod
    def _always_written(cls, settings: dict[str, Any]) -> Sequence[str]:
        """Settings that may be None in the constructor, but never are in a configuration."""
        return ("capacity",)

    # --- the same for all ---

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever put in."""
        return self.latest is None

    @property
    def nbytes(self) -> int:
        """Size of the sketch as bytes, as in a binary column."""
        return len(self.to_bytes())

    def empty_like(self, merge_levels: int = 0, stream: int = 0) -> Self:
        """A new sketch of the same configuration.

        With ``merge_levels`` it is kept as tightly as it takes for a tree of so many levels of
        merging, built from such sketches, to meet the error asked for. Where merging is exact this
        makes no difference. ``stream`` tells apart sketches that are built side by side and merged
        later, where events draw their own coins; elsewhere it makes no difference.
        """
        return type(self)(**settings(self.config))

    def merge(self, other: Self) -> Self:
        """Take in another sketch of equal configuration, which is not changed; returns self.

        Equal to having seen the events of both, exactly or within ``guarantee`` as ``merge_law``
        says. Merging with an empty sketch changes nothing.
        """
        self._check_mergeable(other)
        if not other.is_empty:
            both = [other] if self.is_empty else [self, other]
            self._become(self._merged(both) if len(both) > 1 else other.copy())
        return self

    def _check_mergeable(self, other: object) -> None:
        self._check_alike(other, "merge")

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

    def _finish(self, prototype: Self) -> None:  # noqa: B027
        """Become what a user of ``prototype`` expects of a sketch that was built in parts.

        That is, give up what served the building alone: its own stream, tightness to spare.
        """

    def _settle(self) -> None:  # noqa: B027
        """Work in what waits, and give back its memory; when makes no difference."""

    def _column(self, merge_levels: int = 0, stream: int = 0) -> "Column":
        """What keeps many such sketches together.

        Number i of them is ``empty_like(merge_levels, stream + i)``. Classes whose kernels take
        many keys at once have a faster one than an object for each.
        """
        from recency.column import SketchColumn  # which needs this module

        return SketchColumn(self, merge_levels, stream)

    def to_bytes(self) -> bytes:
        """The sketch as bytes, the same for the same state everywhere."""
        return _encode_alike([self])[0]

    @classmethod
    def from_bytes(cls, data: Frame) -> Self:
        """Read what :meth:`to_bytes` wrote; anything else is a ``CorruptSketchError``."""
        if "family" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} has no bytes of its own: use recency.loads")
        sketch = decode_many([data], expected=cls)[0]
        assert isinstance(sketch, cls)
        return sketch

    def __reduce__(self) -> tuple[Callable[..., "Sketch"], tuple[type["Sketch"], bytes]]:
        """Pickle as bytes; the class goes along, so that they can be read where it is not known."""
        return _unpickled, (type(self), self.to_bytes())

    def __copy__(self) -> Self:
        """:meth:`copy`: nothing is shared that can change."""
        return self.copy()

    def __deepcopy__(self, memo: object) -> Self:
        """:meth:`copy`."""
        return self.copy()

    def __eq__(self, other: object) -> bool:
        """Equal class, configuration and state."""
        if not isinstance(other, Sketch):
            return NotImplemented
        if type(self) is not type(other) or self.config != other.config:
            return False
        mine, theirs = (_records([sketch]).numbers()[0] for sketch in (self, other))
        return bool(np.array_equal(mine, theirs))

    __hash__ = None  # type: ignore[assignment]


def _register(cls: type[Sketch]) -> None:
    """Give the class its family number, unless another has it.

    A class that is defined again, as in a notebook or by an unpickler, takes its own place.
    """
    number, taken = cls.family, _classes.get(cls.family)
    names = [f"{each.__module__}.{each.__qualname__}" for each in (taken, cls) if each is not None]
    if len(set(names)) > 1:
        raise TypeError(f"family {number} is taken: {names[0]} has it, {names[1]} needs another")
    ours = FAMILIES.get(number)
    if ours is not None and taken is None and not cls.__module__.startswith("recency."):
        raise TypeError(
            f"family {number} is taken: recency.{ours} has it, {names[0]} needs another"
        )
    _classes[number] = cls


def _unpickled(cls: type[_S], frame: bytes) -> _S:
    """A sketch of this very class, which may be a subclass without bytes of its own."""
    own = next(each for each in cls.__mro__ if "family" in each.__dict__)
    sketch = decode_many([frame], expected=own)[0]
    if type(sketch) is cls:
        return sketch
    twin = cls.__new__(cls)
    vars(twin).update(vars(sketch))
    return twin


def known_classes() -> list[type[Sketch]]:
    """All sketch classes that there are in this process."""
    return list(_classes.values())


def foreign_classes() -> list[type[Sketch]]:
    """Sketch classes that are not this package's, which other processes may not know."""
    return [cls for cls in _classes.values() if not cls.__module__.startswith("recency.")]


def refuse_merge(name: str, reason: str, verb: str = "merge") -> NoReturn:
    """Refuse to combine sketches, in the one wording used everywhere."""
    raise IncompatibleSketchError(f"cannot {verb} {name}: {reason}")


def merge_all(sketches: Iterable[_S]) -> _S:
    """One new sketch of all events, merged in one step; the operands are not changed."""
    operands = list(sketches)
    if not operands:
        raise ValueError("merge_all needs at least one sketch")
    if not isinstance(operands[0], Sketch):
        raise TypeError(f"merge_all takes sketches, got {type(operands[0]).__name__}")
    for other in operands[1:]:
        operands[0]._check_mergeable(other)
    filled = [sketch for sketch in operands if not sketch.is_empty]
    if len(filled) < 2:
        return (filled or operands)[0].copy()
    return type(filled[0])._merged(filled)


def encode_many(sketches: Iterable[Sketch]) -> list[bytes]:
    """``to_bytes`` of many sketches; fast where many share one configuration."""
    operands = list(sketches)
    for sketch in operands:
        if not isinstance(sketch, Sketch):
            raise TypeError(f"encode_many takes sketches, got {type(sketch).__name__}")
    return _by_group(
        operands,
        key=lambda sketch: (type(sketch), sketch.config),
        work=lambda _, group: _encode_alike(group),
    )


def decode_many(frames: Iterable[Frame], expected: type[Sketch] | None = None) -> list[Sketch]:
    """``loads`` of many; fast where many share one configuration."""
    name = "sketch" if expected is None else expected.__name__
    return _by_group(
        [_as_bytes(frame, name) for frame in frames],
        key=lambda frame: codec.read_header(frame, name),
        work=lambda header, group: _decode_alike(header, group, expected),
    )


def loads(data: Frame) -> Sketch:
    """Read a sketch of any kind."""
    return decode_many([data])[0]


def _encode_alike(sketches: Sequence[Sketch]) -> list[bytes]:
    return encode_records(sketches[0], _records(sketches))


def _records(sketches: Sequence[Sketch]) -> RecordWriter:
    writer = RecordWriter(len(sketches))
    type(sketches[0])._write(sketches, writer)
    return writer


def settings(config: Any) -> dict[str, Any]:
    """The parameters of the constructor that a configuration was made by."""
    return {field.name: getattr(config, field.name) for field in fields(config)}


def _encoded_config(config: Any) -> bytes:
    values = settings(config).values()
    return codec.encode_config([v.encoded() if isinstance(v, Decay) else v for v in values])


def encode_records(prototype: Sketch, writer: RecordWriter) -> list[bytes]:
    """One frame for each record: the states of sketches with the prototype's configuration."""
    return codec.encode_many(prototype.family, _encoded_config(prototype.config), writer)


def _decode_alike(
    header: tuple[int, bytes], frames: Sequence[bytes], expected: type[Sketch] | None
) -> list[Sketch]:
    family, config = header
    if expected is not None and family != expected.family:
        codec.corrupt(expected.__name__, f"expected family {expected.family}, got {family}")
    if family not in _classes:
        known = FAMILIES.get(family, "unknown")
        codec.corrupt("sketch", f"this release has no class for family {family} ({known})")
    cls = _classes[family]
    name = cls.__name__
    prototype = _prototype(cls, codec.decode_config(config, name))
    if _encoded_config(prototype.config) != config:
        codec.corrupt(name, "the configuration is not in its canonical form")
    reader = codec.read_payloads(frames, len(config), name)
    sketches = cls._read(prototype, reader)
    reader.finish(_records(sketches))
    return list(sketches)


def _prototype(cls: type[Sketch], values: list[codec.Scalar]) -> Sketch:
    names = [field.name for field in fields(cls.config_class)]
    if len(names) != len(values):
        codec.corrupt(cls.__name__, f"expected {len(names)} settings, got {len(values)}")
    written = dict(zip(names, values, strict=True))
    for name in cls._always_written(written):
        if written.get(name, 1) is None:  # it would be computed, at length for hostile bytes
            codec.corrupt(cls.__name__, f"no {name}")
    try:
        return cls(
            **{k: Decay.decoded(v) if isinstance(v, tuple) else v for k, v in written.items()}
        )
    except (TypeError, ValueError) as error:
        codec.corrupt(cls.__name__, f"bad configuration: {error}")


def _as_bytes(data: object, name: str) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{name} bytes must be bytes, got {type(data).__name__}")
    return bytes(data)


def _by_group(
    items: list[_T], key: Callable[[_T], _K], work: Callable[[_K, list[_T]], list[_R]]
) -> list[_R]:
    """``work`` on all items with equal keys together; results in the order of the items."""
    groups: dict[_K, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    if len(groups) == 1:
        return work(next(iter(groups)), items)
    results: list[Any] = [None] * len(items)
    for group_key, indices in groups.items():
        for i, result in zip(indices, work(group_key, [items[i] for i in indices]), strict=True):
            results[i] = result
    return results
