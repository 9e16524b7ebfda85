"""The contract for sketches of other packages, as far as the laws do not test it."""

import ast
import inspect
import types
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import recency.extending
from active_days import ActiveDays
from recency import Bank, CorruptSketchError, OutOfOrderError, loads
from recency.core import codec
from recency.extending import (
    NEVER,
    Admitted,
    Algorithm,
    BatchAlgorithm,
    Estimate,
    NoBody,
    PerKey,
    RecordWriter,
    Sketch,
    State,
    TallyAlgorithm,
    by_key,
    question,
    to_ticks,
    validate,
    zigzag,
)

ROOT = Path(__file__).parents[2]
PUBLIC = {name: getattr(recency.extending, name) for name in recency.extending.__all__}


def test_the_module_exports_what_it_imports_and_nothing_else():
    tree = ast.parse(Path(recency.extending.__file__).read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == set(PUBLIC)
    assert all(isinstance(node, ast.ImportFrom | ast.Expr | ast.Assign) for node in tree.body)


def _documented():
    for name, value in PUBLIC.items():
        if isinstance(value, types.ModuleType):
            yield name, value
            mine = (each for each in vars(value).items() if not each[0].startswith("_"))
            yield from (
                (f"{name}.{function}", each)
                for function, each in mine
                if inspect.isfunction(each) and each.__module__ == value.__name__
            )
        elif inspect.isclass(value):
            yield name, value
            yield from (
                (f"{name}.{member}", each)
                for member, each in vars(value).items()
                if not member.startswith("_") and isinstance(each, types.FunctionType | property)
            )
        elif inspect.isfunction(value):
            yield name, value


@pytest.mark.parametrize(("name", "value"), list(_documented()))
def test_everything_has_a_docstring(name, value):
    assert len((value.__doc__ or "").split()) >= 3, name


def test_few_methods_are_abstract():
    def written(cls):
        return sorted(cls.__abstractmethods__)

    assert written(TallyAlgorithm) == ["check", "flaw", "merge"]
    left = {"absorb", "admit", "check", "empty", "guarantee", "merge", "read", "write"}
    assert set(written(BatchAlgorithm)) == left
    assert set(written(Algorithm)) == left | {"check_row", "stack"}


def test_the_example_is_small():
    lines = (ROOT / "examples" / "active_days.py").read_text().splitlines()
    docstrings = sum(line.strip().startswith('"""') for line in lines)  # of one line each
    assert sum(bool(line) for line in lines) - docstrings < 60


# --- a tally of numbers of all kinds ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LastTally(PerKey):
    small: np.ndarray
    unsigned: np.ndarray
    single: np.ndarray
    flag: np.ndarray
    start: ClassVar = {
        **PerKey.start,
        "small": np.int16(-1),
        "unsigned": np.uint64(0),
        "single": 0.5,
        "flag": True,
    }


class LastAlgorithm(TallyAlgorithm):
    """The numbers of the last row; of several rows at one time, the largest numbers."""

    tally = LastTally
    relative_error = 0.25

    def check(self, size, small, unsigned, single, flag, at):
        columns = (np.asarray(each) for each in (to_ticks(at, None), small, unsigned, single, flag))
        return validate.as_columns(size, **dict(zip("abcde", columns, strict=True)))

    def merge(self, state, into, size):
        tally = state.tally
        order = np.lexsort((*list(vars(tally).values())[::-1], into))
        return State(tally.take(order[np.cumsum(np.bincount(into)) - 1]), NoBody(size))

    def flaw(self, tally):
        return "no number" if np.isnan(tally.single).any() else None


class Last(Sketch):
    family = 240

    def __init__(self):
        super().__init__(LastAlgorithm())

    def update(self, *values, at):
        self._keyed.add_row(*values, at)

    def update_many(self, small, unsigned, single, flag, *, at):
        names = ("small", "unsigned", "single", "flag", "at")
        given = (small, unsigned, single, flag, at)
        self._keyed.update_many(None, dict(zip(names, given, strict=True)))

    @question
    def query(view) -> Estimate:
        single = view.state.tally.single
        return Estimate(single, single, single)


EDGES = {
    "small": np.array([-(2**15), 2**15 - 1, 0], dtype=np.int16),
    "unsigned": np.array([2**64 - 1, 0, 1], dtype=np.uint64),
    "single": np.array([-0.0, np.inf, 5e-324]),
    "flag": np.array([True, False, True]),
}


def test_numbers_of_every_type_are_read_from_bytes():
    bank = Bank(Last())
    bank.update_many(["a", "b", "c"], **EDGES, at=np.array([-(2**63) + 1, 0, 2**63 - 1]))
    bank.update_many("d", **{name: column[:0] for name, column in EDGES.items()}, at=[])
    stored = bank.to_bytes()
    back = Bank.from_bytes(stored)
    assert back.to_bytes() == stored
    tally = back._keyed.tally
    for name, column in EDGES.items():
        read = getattr(tally, name)
        assert read.dtype == column.dtype
        assert read.tobytes() == column.tobytes()
    assert Last().guarantee == 0.25
    assert loads(Last().to_bytes()).is_empty


def test_bytes_that_no_stream_leads_to_are_refused():
    def frame(*numbers):
        writer = RecordWriter(1)
        writer.ragged(np.array(numbers, dtype=np.uint64), np.array([len(numbers)]))
        return codec.encode_many(Last.family, b"", writer)[0]

    one = np.array(1.0).view(np.uint64)
    assert loads(frame(1, 8, 2, 7, one, 1)).latest == 4
    never = int(zigzag(np.array([NEVER]))[0])
    nan = np.array(np.nan).view(np.uint64)
    for numbers, reason in [
        ((2, 8, 2, 7, one, 1), "above 1"),
        ((1, never, 2, 7, one, 1), "latest time"),
        ((1, 8, 2, 7, nan, 1), "no number"),
        ((1, 8, 2**17, 7, one, 1), "canonical"),  # no int16
        ((1, 8, 2, 7, one, 2), "canonical"),  # no bool
        ((1, 8, 2, 7, one), "shorter"),
        ((0, 8), "longer"),
    ]:
        with pytest.raises(CorruptSketchError, match=reason):
            loads(frame(*numbers))


# --- single updates that follow from batches ----------------------------------------------------


@dataclass(frozen=True, eq=False)
class GapTally(PerKey):
    longest: np.ndarray


class GapAlgorithm(BatchAlgorithm):
    """The longest time between two consecutive events; late events are refused."""

    merge_law = "exact"
    needs_order = True
    unmergeable = "what came in between is not known"

    def empty(self, size, merge_levels=0, first_stream=0):
        return State(GapTally.empty(size), NoBody(size))

    def check(self, size, at):
        return validate.as_columns(size, at=to_ticks(at, None))

    def admit(self, tally, keys, columns):
        (at,) = columns
        if (at < tally.latest[keys]).any():
            raise OutOfOrderError(f"at must not be before the latest time, got {at}")
        joint = np.concatenate([np.flatnonzero(tally.seen), keys])
        times = np.concatenate([tally.latest[tally.seen], at])
        order = np.lexsort((times, joint))
        of_one = np.flatnonzero(joint[order][1:] == joint[order][:-1])
        gaps = np.diff(times[order])[of_one]
        longest = by_key.raised(tally.longest, joint[order][of_one], gaps)
        return Admitted(GapTally(by_key.raised(tally.latest, keys, at), longest), keys, columns)

    def absorb(self, state, keys, columns):
        return state.body

    def merge(self, state, into, size):
        raise AssertionError("refused before")

    def guarantee(self, state):
        return np.zeros(state.tally.size)

    def write(self, state, writer):
        writer.scalar(zigzag(state.tally.latest))
        writer.scalar(state.tally.longest.astype(np.uint64))

    def read(self, reader):
        latest = reader.signed(np.ones(reader.size, dtype=np.int64))
        return State(GapTally(latest, reader.integer()), NoBody(reader.size))


class LongestGap(Sketch):
    family = 241

    def __init__(self):
        super().__init__(GapAlgorithm())

    def update(self, *, at):
        self._keyed.add_row(at)

    def update_many(self, *, at):
        self._keyed.update_many(None, {"at": at})

    @question
    def query(view) -> Estimate:
        longest = view.state.tally.longest.astype(np.float64)
        return Estimate(longest, longest, longest)


def test_single_updates_are_batches_of_one():
    times = np.cumsum(np.random.default_rng(3).integers(0, 50, 9_000)).tolist()
    alone, together = LongestGap(), LongestGap()
    for at in times:
        alone.update(at=at)
    together.update_many(at=times)
    assert alone == together
    assert alone.query().value == np.diff(times).max()
    assert loads(alone.to_bytes()) == alone


def test_a_single_update_is_refused_for_rows_that_are_still_buffered():
    sketch = LongestGap()
    sketch.update(at=10)
    sketch.update(at=30)
    with pytest.raises(OutOfOrderError):
        sketch.update(at=29)
    with pytest.raises(TypeError, match="at must be a single value, got list"):
        sketch.update(at=[40])
    sketch.update(at=35)
    assert sketch.query().value == 20
    assert sketch.latest == 35


def test_a_bank_of_them_is_many_sketches():
    rng = np.random.default_rng(4)
    bank, alone = Bank(LongestGap()), {}
    for begin in range(0, 500, 50):
        keys = rng.integers(0, 5, 20)
        at = rng.integers(begin, begin + 50, 20)
        bank.update_many(keys, at=at)
        for key in np.unique(keys).tolist():
            alone.setdefault(key, LongestGap()).update_many(at=at[keys == key])
    assert bank.to_bytes() == {key: alone[key].to_bytes() for key in bank}


# --- the example of the docs --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latest", "active", "is_possible"),
    [
        (100, 1, True),
        (100, 2**7 - 1, True),
        (100, 2**6, False),  # not on the latest day
        (100, 0, False),
        (100, 2**7 + 1, False),  # before the window
        (NEVER + 1, 1, True),
        (NEVER + 1, 3, False),  # before the first day there is
        (NEVER + 7, 2**6 + 1, True),
        (NEVER + 6, 2**6 + 1, False),
    ],
)
def test_the_example_refuses_days_that_cannot_be(latest, active, is_possible):
    writer = RecordWriter(1)
    writer.scalar(np.array([1], dtype=np.uint64))
    writer.scalar(zigzag(np.array([latest])))
    writer.scalar(np.array([active], dtype=np.uint64))
    frame = codec.encode_many(ActiveDays.family, codec.encode_config([7]), writer)[0]
    if is_possible:
        sketch = loads(frame)
        assert sketch.latest == latest
        assert sketch.query().value == active.bit_count()
    else:
        with pytest.raises(CorruptSketchError, match="days that cannot be"):
            loads(frame)


def test_the_example_refuses_bad_arguments():
    with pytest.raises(ValueError, match=r"window must be in \[1, 63\], got 64"):
        ActiveDays(64)
    sketch = ActiveDays(63)
    sketch.update_many(at=[0, 62, 63])
    assert sketch.query().value == 2
    with pytest.raises(ValueError, match=r"window must be in \[1, 63\], got 64"):
        sketch.query(64)
