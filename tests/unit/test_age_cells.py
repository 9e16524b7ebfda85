"""Age cells against plain integers and loops."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency.core import age_cells
from recency.core.age_cells import MOST_LEVEL, NO_CELLS, RESOLUTION, Now, levels_at, most_level
from recency.core.arrays import INT64_MAX, INT64_MIN, cutoffs

FIRST = INT64_MIN + 1
ENDS = [FIRST, FIRST + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX]
NEAR = st.integers(-300, 300)
TICKS = NEAR | st.sampled_from(ENDS) | st.integers(FIRST, INT64_MAX)
AMOUNTS = st.floats(0, 2.0**960) | st.integers(1, 100).map(float) | st.floats(0, 1e-300)


def level_of(time, clock, most):
    """The definition."""
    level = 0
    for j in range(most + 1):
        last = ((time >> j) + 1 << j) - 1
        if clock - last >= RESOLUTION << j:
            level = j
    return level


@given(st.lists(TICKS, min_size=1), TICKS, st.integers(1, INT64_MAX) | st.none())
def test_the_level_of_a_cell_is_that_of_the_definition(times, clock, window):
    times = [min(time, clock) for time in times]
    most = most_level(window)
    found = levels_at(np.array(times), np.array([clock]), most)
    assert found.tolist() == [level_of(time, clock, most) for time in times]


def oracle(rows, window):
    """Exact sums by cell at the latest time."""
    clock = max(time for time, _ in rows)
    most, cutoff = most_level(window), int(cutoffs(np.array([clock]), window)[0])
    sums = {}
    for time, amount in rows:
        level = level_of(time, clock, most)
        first = time >> level << level
        if first + (1 << level) - 1 > cutoff and amount:
            sums[first] = sums.get(first, 0) + Fraction(amount)
    return sums


def exact(cells, key=0):
    sums = {}
    for row in np.flatnonzero(cells.keys == key).tolist():
        digit = Fraction(int(cells.digits[row])) * Fraction(2) ** (
            32 * int(cells.places[row]) - 1088
        )
        first = int(cells.firsts[row])
        sums[first] = sums.get(first, 0) + digit
    return sums


def columns_of(cells):
    return [column.tolist() for column in vars(cells).values()]


def put(cells, batches, window, counting=False, before=None):
    """Batches of (key, time, amount), each at the latest time of its key so far."""
    clocks = np.full(3, INT64_MIN) if before is None else before
    most = most_level(window)
    for batch in batches:
        keys, times, amounts = (np.array(column) for column in zip(*batch, strict=True))
        np.maximum.at(clocks, keys, times)
        known = np.where(clocks == INT64_MIN, 0, clocks)
        amounts = None if counting else amounts.astype(float)
        cells = cells.with_rows(keys, times, amounts, Now(known, cutoffs(known, window), most))
    return cells, clocks


ROWS = st.lists(st.tuples(st.integers(0, 2), TICKS, AMOUNTS), min_size=1, max_size=40)
WINDOWS = st.none() | st.integers(1, 1000) | st.integers(1, INT64_MAX)


@settings(max_examples=300)
@given(ROWS, WINDOWS, st.data(), st.booleans())
def test_cells_are_a_function_of_the_rows(rows, window, data, counting):
    """Whatever the order, the batches, or the tree of merges; sums are exact."""
    whole, clocks = put(NO_CELLS, [rows], window, counting)
    for key in range(3):
        mine = [(time, 1.0 if counting else amount) for k, time, amount in rows if k == key]
        assert exact(whole, key) == (oracle(mine, window) if mine else {})
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=4))})
    batches = [shuffled[a:b] for a, b in pairwise(cuts)]
    in_batches, _ = put(NO_CELLS, batches, window, counting)
    assert columns_of(in_batches) == columns_of(whole)
    parts = [put(NO_CELLS, [batch], window, counting)[0] for batch in batches]
    known = np.where(clocks == INT64_MIN, 0, clocks)
    joined = age_cells.AgeCells(
        *(np.concatenate(each) for each in zip(*(vars(p).values() for p in parts), strict=True))
    )
    merged = joined.at(Now(known, cutoffs(known, window), most_level(window)))
    assert columns_of(merged) == columns_of(whole)


@given(ROWS, WINDOWS)
def test_one_key_alone_has_the_same_cells(rows, window):
    """It has a faster way."""
    whole, _ = put(NO_CELLS, [rows], window)
    for key, part in enumerate(whole.split(3)):
        mine = [(0, time, amount) for k, time, amount in rows if k == key]
        alone = put(NO_CELLS, [mine], window, before=np.full(1, INT64_MIN))[0] if mine else NO_CELLS
        assert columns_of(part) == columns_of(alone)
        assert columns_of(whole.take(np.array([key]))) == columns_of(alone)
    again = age_cells.AgeCells.joined(whole.split(3), [1, 1, 1])
    assert columns_of(again) == columns_of(whole)
    twice = whole.take(np.array([2, 0, 2]))
    assert exact(twice, 0) == exact(twice, 2) == exact(whole, 2)
    assert exact(twice, 1) == exact(whole, 0)


@pytest.mark.parametrize("span", [1, 100, 10**5, 10**9, 10**17])
@pytest.mark.parametrize("window", [None, 1, 16, 17, 1000, 10**9])
def test_many_rows_in_any_order(span, window):
    rng = np.random.default_rng(5)
    times = 7 - rng.integers(0, span, 5000)
    amounts = rng.lognormal(0, 20, 5000)
    rows = list(zip(times.tolist(), amounts.tolist(), strict=True))
    rows.append((7, 1.0))
    batch = [(0, *row) for row in rows]
    alone, _ = put(NO_CELLS, [batch[:3000], batch[3000:]], window, before=np.full(1, INT64_MIN))
    assert exact(alone) == oracle(rows, window)
    many, _ = put(NO_CELLS, [batch[:4000], batch[4000:]], window)
    assert columns_of(many) == columns_of(alone)


def test_sums_are_rounded_once_and_do_not_overflow():
    rows = [(0, 5, 2.0**960), (0, 6, 1.0), (1, 5, 0.1), (1, 6, 0.2), (1, 6, 5e-324)]
    cells, _ = put(NO_CELLS, [rows], None)
    for _ in range(62):
        cells = age_cells.AgeCells(
            *(np.concatenate([column] * 2) for column in vars(cells).values())
        ).at(Now(np.array([6, 6, 0]), np.full(3, INT64_MIN), MOST_LEVEL))
    found = cells.sums(slice(None), 3)
    assert found.tolist() == [2.0**1022, float(2**62 * (Fraction(0.1) + Fraction(0.2))), 0.0]
