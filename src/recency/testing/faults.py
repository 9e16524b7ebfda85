"""Calls that are interrupted at a line of their choice, as Ctrl-C, a full memory or a signal may.

:func:`interruptions` runs a call once to learn which lines it passes, then once more for each of
them, raising :class:`Interrupted` there.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Line = tuple[str, int]

_HERE = str(Path(__file__).parent)


class Interrupted(BaseException):
    """Like KeyboardInterrupt, what nobody should catch and forget."""


def interruptions(
    make: Callable[[], T], call: Callable[[T], Any], files: tuple[str, ...], most: int | None
) -> Iterator[tuple[str, T]]:
    """Objects that ``call`` was interrupted on, and where: at each line of ``files`` it passes.

    ``files`` are beginnings of names. Of a line that is passed many times, the first and the last
    time are interrupted; with ``most``, about that many lines, spread over all.
    """
    passed: dict[Line, int] = {}

    def count(line: Line) -> None:
        passed[line] = passed.get(line, 0) + 1

    made = make()
    _traced(lambda: call(made), files, count)
    points = [(line, nth, n) for line, n in passed.items() for nth in sorted({1, n})]
    for line, nth, times in points[:: 1 if most is None else max(len(points) // most, 1)]:
        made = make()
        try:
            _traced(lambda made=made: call(made), (line[0],), _raising(line, nth))  # type: ignore[misc]
        except Interrupted:
            yield f"{Path(line[0]).name}:{line[1]} ({nth} of {times})", made


def _raising(line: Line, nth: int) -> Callable[[Line], None]:
    """Raises when a line is passed for the nth time."""
    left = nth

    def interrupt(here: Line) -> None:
        nonlocal left
        left -= here == line
        if here == line and not left:
            raise Interrupted

    return interrupt


def _traced(
    call: Callable[[], Any], files: tuple[str, ...], on_line: Callable[[Line], None]
) -> None:
    """``call``, telling each line of files whose names begin like this (but not of this folder)."""

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            on_line((frame.f_code.co_filename, frame.f_lineno))
        return local

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        return local if name.startswith(files) and not name.startswith(_HERE) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
