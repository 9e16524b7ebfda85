import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recency import NthRecentWave
from recency.core.arrays import float_above, float_below, floats_above, floats_below

EDGES = [
    sign * (2**power + shift)
    for power in (0, 52, 53, 54, 62)
    for shift in (-1, 0, 1)
    for sign in (-1, 1)
]
int64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*EDGES, -(2**63), 2**63 - 1])


@given(int64)
def test_floats_around_an_integer_are_the_nearest_on_either_side(x):
    below, above = float_below(x), float_above(x)
    assert below <= x <= above
    assert math.nextafter(below, math.inf) > x
    assert math.nextafter(above, -math.inf) < x
    assert floats_below(np.array([x])).tolist() == [below]
    assert floats_above(np.array([x])).tolist() == [above]


def test_the_floats_around_zero_have_no_sign():
    zero = np.zeros(1, dtype=np.int64)
    floats = [float_below(0), float_above(0), *floats_below(zero), *floats_above(zero)]
    assert [math.copysign(1, x) for x in floats] == [1, 1, 1, 1]


def test_ages_beyond_the_integers_of_floats_are_between_their_ends():
    sketch = NthRecentWave()
    sketch.update(at=-(2**62))
    for age in (2**62 + 1, 2**63 - 1, 2**62 + 2**9 + 1):
        answer = sketch.query(now=age - 2**62)
        assert answer.lower <= age <= answer.upper
