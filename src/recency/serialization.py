"""Sketches as bytes: which class a family number means, and many frames read or written at once.

Frames of one class and configuration are one :class:`~recency.keyed.Keyed`, key i from frame i:
:func:`read_frames` brings them together, and what is done with them is one kernel call.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from recency.core import codec
from recency.core.arrays import Int64Array
from recency.decay import Decay
from recency.keyed import Keyed, joined

if TYPE_CHECKING:
    from recency.sketch import Sketch

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
YOURS = range(128, 256)
"""Families of classes outside this package; those below are for this package alone."""

_classes: dict[int, type["Sketch"]] = {}

Frame = bytes | bytearray | memoryview

_S = TypeVar("_S", bound="Sketch")


# --- classes ------------------------------------------------------------------------------------


def register(cls: type["Sketch"]) -> None:
    """Give the class its family number, unless it is another's.

    A class that is defined again, as in a notebook or by an unpickler, takes its own place.
    """
    name, taken = _full_name(cls), _classes.get(cls.family)
    if _is_foreign(cls):
        _check_yours(cls.family, name)
    if taken is not None and _full_name(taken) != name:
        raise TypeError(
            f"family {cls.family} is taken: {_full_name(taken)} has it, {name} needs another"
        )
    _classes[cls.family] = cls


def _check_yours(number: object, name: str) -> None:
    first, last = YOURS.start, YOURS.stop - 1
    if type(number) is not int or not 0 <= number <= last:
        raise TypeError(f"family of {name} must be an integer in [{first}, {last}], got {number!r}")
    if number < first:
        ours = FAMILIES.get(number, "no class yet")
        raise TypeError(
            f"family {number} is taken: {first}–{last} are for classes of your own, the others "
            f"for recency ({number}: {ours}), {name} needs another"
        )


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def known_classes() -> list[type["Sketch"]]:
    """All sketch classes that there are in this process."""
    return list(_classes.values())


def foreign_classes() -> list[type["Sketch"]]:
    """Sketch classes that are not this package's, which other processes may not know."""
    return [cls for cls in _classes.values() if _is_foreign(cls)]


def _is_foreign(cls: type) -> bool:
    return not cls.__module__.startswith("recency.")


# --- writing ------------------------------------------------------------------------------------


def encode_keyed(prototype: "Sketch", keyed: Keyed) -> list[bytes]:
    """A frame for each key: sketches with the prototype's configuration."""
    if not len(keyed):  # nothing to refuse either, if the configuration cannot be written
        return []
    return codec.encode_many(prototype.family, _encoded_config(prototype.config), keyed.records())


def encode_many(sketches: Iterable["Sketch"]) -> list[bytes]:
    """Return ``to_bytes()`` of many sketches.

    This is faster than a loop where many sketches share one configuration.
    """
    from recency.sketch import Sketch  # which needs this module

    operands = list(sketches)
    for sketch in operands:
        if not isinstance(sketch, Sketch):
            raise TypeError(f"encode_many takes sketches, got {type(sketch).__name__}")
    frames: list[bytes] = [b""] * len(operands)
    alike: dict[Any, list[int]] = {}
    for i, sketch in enumerate(operands):
        alike.setdefault((type(sketch), sketch.config), []).append(i)
    for rows in alike.values():
        together = joined([operands[row]._keyed for row in rows])
        _put(frames, rows, encode_keyed(operands[rows[0]], together))
    return frames


def _encoded_config(config: Any) -> bytes:
    values = [getattr(config, field.name) for field in fields(config)]
    return codec.encode_config([v.encoded() if isinstance(v, Decay) else v for v in values])


# --- reading ------------------------------------------------------------------------------------


class Alike(NamedTuple):
    """Frames of one configuration: an empty sketch of it, the states, and which frames they are."""

    prototype: "Sketch"
    keyed: Keyed
    rows: Int64Array


def read_frames(frames: Iterable[Frame], expected: type["Sketch"] | None = None) -> list[Alike]:
    """The states in frames, those of one configuration together."""
    name = _label(expected)
    data = [frame if type(frame) is bytes else _as_bytes(frame, name) for frame in frames]
    groups: dict[bytes, list[int]] = {}
    header, rows = None, []
    for i, frame in enumerate(data):
        if header is None or not frame.startswith(header):
            header = codec.read_header(frame, name)
            rows = groups.setdefault(header, [])
        rows.append(i)
    return [
        Alike(*_read_alike(header, [data[row] for row in rows], expected), np.array(rows))
        for header, rows in groups.items()
    ]


def decode_many(frames: Iterable[Frame], expected: type["Sketch"] | None = None) -> list["Sketch"]:
    """Read many sketches, in their order, from what ``to_bytes`` or ``encode_many`` returned.

    This is faster than a loop where many sketches share one configuration. With ``expected``, all
    must be of that class. Anything else raises a ``CorruptSketchError``.
    """
    groups = read_frames(frames, expected)
    sketches: list[Any] = [None] * sum(group.rows.size for group in groups)
    for prototype, keyed, rows in groups:
        _put(sketches, rows.tolist(), [prototype._with(each) for each in keyed.split()])
    return sketches


def loads(data: Frame) -> "Sketch":
    """Read a sketch of any class from what ``to_bytes`` returned.

    Raises
    ------
    CorruptSketchError
        If ``data`` is anything else.
    """
    return decode_many([data])[0]


def merge_frames(
    frames: Iterable[Frame],
    into: Int64Array,
    size: int,
    prototypes: Sequence["Sketch"] = (),
    which: Int64Array | None = None,
) -> list[bytes]:
    """Frames of ``size`` sketches, where frame i is merged into sketch ``into[i]``.

    With ``prototypes``, sketch j is finalized as a user of ``prototypes[which[j]]`` expects it.
    """
    merged: list[bytes] = [b""] * size
    groups = read_frames(frames)
    owner = np.full(size, -1)
    for number, (prototype, keyed, rows) in enumerate(groups):
        targets, local = np.unique(into[rows], return_inverse=True)
        for other in np.unique(owner[targets][owner[targets] >= 0]).tolist():
            groups[other].prototype._check_mergeable(prototype)
        owner[targets] = number
        if targets.size < rows.size:
            prototype._check_mergeable(prototype)
            keyed = keyed.merged(local, targets.size)
        if which is None:
            _put(merged, targets.tolist(), encode_keyed(prototype, keyed))
            continue
        for job in np.unique(which[targets]).tolist():
            of_job = np.flatnonzero(which[targets] == job)
            final = keyed.take(of_job).finalized(prototypes[job]._keyed)
            _put(merged, targets[of_job].tolist(), encode_keyed(prototype, final))
    return merged


def unpickled(cls: type[_S], frame: bytes) -> _S:
    """A sketch of this very class, which may be a subclass without bytes of its own."""
    own = next(each for each in cls.__mro__ if "family" in each.__dict__)
    sketch = decode_many([frame], expected=own)[0]
    if type(sketch) is cls:
        return sketch
    twin = cls.__new__(cls)
    vars(twin).update(vars(sketch))
    return twin


def _read_alike(
    header: bytes, frames: Sequence[bytes], expected: type["Sketch"] | None
) -> tuple["Sketch", Keyed]:
    payloads = codec.check_whole(frames, header, _label(expected))
    family, config = codec.family_and_config(header)
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
    reader = codec.read_payloads(payloads, name)
    return prototype, Keyed.from_records(prototype._algorithm, reader)


def _prototype(cls: type["Sketch"], values: list[codec.Scalar]) -> "Sketch":
    names = [field.name for field in fields(cls.config_class)]
    if len(names) != len(values):
        codec.corrupt(cls.__name__, f"expected {len(names)} settings, got {len(values)}")
    written = dict(zip(names, values, strict=True))
    for name in cls._always_written(written):
        if written.get(name, 1) is None:  # it would be computed, at length for hostile bytes
            codec.corrupt(cls.__name__, f"no {name}")
    make: Callable[..., Sketch] = cls
    try:
        return make(
            **{k: Decay.decoded(v) if isinstance(v, tuple) else v for k, v in written.items()}
        )
    except (TypeError, ValueError) as error:
        codec.corrupt(cls.__name__, f"bad configuration: {error}")


def _label(expected: type["Sketch"] | None) -> str:
    """What a frame is called before it says what it is."""
    return "sketch" if expected is None else expected.__name__


def _as_bytes(data: object, name: str) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{name} bytes must be bytes, got {type(data).__name__}")
    return bytes(data)


def _put(out: list[Any], rows: Sequence[int], values: Sequence[Any]) -> None:
    for row, value in zip(rows, values, strict=True):
        out[row] = value
