import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recency import NthRecentWave
from recency.core.arrays import floats_above, floats_below, midpoints

EDGES = [
    sign * (2**power + shift)
    for power in (0, 52, 53, 54, 62)
    for shift in (-1, 0, 1)
    for sign in (-1, 1)
]
int64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*EDGES, -(2**63), 2**63 - 1])
edges = [x % 2**64 for x in (*EDGES, -1, -2, -(2**10), -(2**10) - 1, -(2**11), 2**63)]
uint64 = st.integers(0, 2**64 - 1) | st.sampled_from(edges)


@given(int64, uint64)
def test_floats_around_an_integer_are_the_nearest_on_either_side(signed, unsigned):
    for x, column in [(signed, np.array([signed])), (unsigned, np.array([unsigned], np.uint64))]:
        (below,), (above,) = floats_below(column).tolist(), floats_above(column).tolist()
        assert below <= x <= above
        assert math.nextafter(below, math.inf) > x
        assert math.nextafter(above, -math.inf) < x


def test_floats_around_zero_include_no_negative_zero():
    for zero in (np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint64)):
        floats = [*floats_below(zero), *floats_above(zero)]
        assert [math.copysign(1, x) for x in floats] == [1, 1]


@given(uint64, uint64 | st.integers(-3, 3))
def test_midpoints_are_rounded_once(a, b):
    b = (a + b) % 2**64 if -3 <= b <= 3 else b
    middle = midpoints(*(np.array([x], dtype=np.uint64) for x in (a, b)))
    assert middle.tolist() == [(a + b) / 2]  # Python rounds quotients of integers once


def test_midpoints_of_ages_beyond_2_to_53_are_between_their_ends():
    sketch = NthRecentWave()
    sketch.update(at=-(2**62))
    for age in (2**62 + 1, 2**63 - 1, 2**62 + 2**9 + 1):
        answer = sketch.query(now=age - 2**62)
        assert answer.lower <= age <= answer.upper
