"""Many sketches of one configuration, by number 0, 1, …: what a Spark partition of groups holds.

A sketch names its column (``_column``). The one here keeps an object for each sketch and serves any
class; classes whose kernels take many keys at once have faster ones.
"""

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Protocol

import numpy as np

from recency.core import validate
from recency.core.arrays import Int64Array, run_starts, stable_order
from recency.sketch import Sketch, encode_many

_DECODED = 4  # bytes in memory for one in a frame, roughly
_TOGETHER = 64  # sketches that are encoded at once


class Column(Protocol):
    """What a column can do."""

    def __len__(self) -> int:
        """How many sketches there are."""
        ...

    def extend(self, size: int) -> None:
        """Have empty sketches up to number ``size - 1``."""

    def update_many(self, numbers: Int64Array, arguments: Mapping[str, Any], size: int) -> None:
        """``update_many`` for the sketch with each row's number, of ``size`` sketches then.

        Refused, it changes nothing.
        """

    def settle(self) -> None:
        """Work in what waits, and give back its memory; when makes no difference."""

    def sketch(self, number: int) -> Sketch:
        """One of them, on its own."""
        ...

    def frames(self, finished: bool) -> list[bytes]:
        """``to_bytes`` of all, ``finished`` or as they are."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory held, roughly."""
        ...


class SketchColumn:
    """One object for each sketch."""

    def __init__(self, prototype: Sketch, merge_levels: int = 0, stream: int = 0) -> None:
        self._prototype, self._merge_levels, self._stream = prototype, merge_levels, stream
        self._sketches: list[Sketch] = []

    def __len__(self) -> int:
        """How many sketches there are."""
        return len(self._sketches)

    def extend(self, size: int) -> None:
        """Have empty sketches up to number ``size - 1``."""
        for number in range(len(self._sketches), size):
            stream = self._stream + number
            self._sketches.append(self._prototype.empty_like(self._merge_levels, stream))

    def update_many(self, numbers: Int64Array, arguments: Mapping[str, Any], size: int) -> None:
        """Copies take the rows, and replace their originals when all have."""
        before = len(self)
        self.extend(size)
        try:
            self._update_many(numbers, arguments)
        except BaseException:
            del self._sketches[before:]
            raise

    def _update_many(self, numbers: Int64Array, arguments: Mapping[str, Any]) -> None:
        columns = {
            name: values if is_one_for_all(values) else _indexable(values)
            for name, values in arguments.items()
        }
        check_lengths(numbers.size, columns)
        if not numbers.size:
            return
        if all(map(is_one_for_all, columns.values())):  # then the sketches could not tell how many
            columns = {**columns, **self._repeated(columns, numbers.size)}
        order = stable_order(numbers)
        starts = run_starts(numbers[order])
        updated = []
        for rows in np.split(order, starts[1:]):
            part = {
                name: values if is_one_for_all(values) else values[rows]
                for name, values in columns.items()
            }
            number = int(numbers[rows[0]])
            sketch = self._sketches[number]
            sketch = sketch if starts.size == 1 else sketch.copy()
            sketch.update_many(**part)
            updated.append((number, sketch))
        for number, sketch in updated:
            self._sketches[number] = sketch

    def _repeated(self, scalars: Mapping[str, Any], size: int) -> dict[str, Any]:
        """The first argument that is given, or has a default, once for each row."""
        defaults = {name: each.default for name, each in parameters(self._prototype).items()}
        for name, value in {**defaults, **scalars}.items():
            if value is not None and value is not Parameter.empty:
                column = np.empty(size, dtype=object)
                column[:] = [value.item() if isinstance(value, np.generic) else value] * size
                return {name: column}
        return {}

    def settle(self) -> None:
        """Work in what waits."""
        for sketch in self._sketches:
            sketch._settle()

    def sketch(self, number: int) -> Sketch:
        """A copy."""
        return self._sketches[number].copy()

    def frames(self, finished: bool) -> list[bytes]:
        """``to_bytes`` of all, some at a time: together they would take much memory."""
        frames: list[bytes] = []
        for begin in range(0, len(self), _TOGETHER):
            sketches = self._sketches[begin : begin + _TOGETHER]
            if finished:
                sketches = [sketch.copy() for sketch in sketches]
                for sketch in sketches:
                    sketch._finish(self._prototype)
            frames += encode_many(sketches)
        return frames

    @property
    def nbytes(self) -> int:
        """Memory held, roughly: as much by all as by some that are looked at."""
        some = self._sketches[:: len(self) // _TOGETHER + 1]
        return _DECODED * sum(map(len, encode_many(some))) * len(self) // max(len(some), 1)


def parameters(prototype: Sketch) -> Mapping[str, Parameter]:
    """The parameters of ``update_many``."""
    return signature(prototype.update_many).parameters


def is_one_for_all(values: Any) -> bool:
    """Whether an argument of ``update_many`` is a scalar that goes with all rows."""
    return values is None or validate.is_scalar(values)


def check_lengths(size: int, arguments: Mapping[str, Any]) -> None:
    """Refuse columns that do not have one value for each of ``size`` rows."""
    for name, values in arguments.items():
        if not is_one_for_all(values) and len(values) != size:
            raise ValueError(
                f"keys and {name} must have the same length, got {size} and {len(values)}"
            )


def _indexable(values: Any) -> Any:
    """An array, without turning values of different kinds into one kind."""
    if not isinstance(values, Sequence):
        return validate.column(values, "column")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
