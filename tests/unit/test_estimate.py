import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recency import Estimate

numbers = st.floats(0, 1e9)


@st.composite
def estimates_with_truth(draw):
    lower, truth, value, upper = sorted(draw(st.lists(numbers, min_size=4, max_size=4)))
    return Estimate(value, lower, upper, draw(st.floats(0, 1))), truth


def test_fields_float_and_exact():
    e = Estimate(2.0, 1.0, 3.0, 0.95)
    assert (e.value, e.lower, e.upper, e.confidence) == (2.0, 1.0, 3.0, 0.95)
    assert float(e) == 2.0
    assert not e.exact
    assert Estimate(2.0, 2.0, 2.0).exact
    assert not Estimate(2.0, 2.0, 2.0, 0.9).exact
    with pytest.raises(AttributeError):
        e.value = 3


@given(estimates_with_truth(), estimates_with_truth())
def test_sums_cover_the_sum(a, b):
    (ea, ta), (eb, tb) = a, b
    total = ea + eb
    assert total.lower <= ta + tb <= total.upper
    assert total.lower <= total.value <= total.upper
    doubt = (1 - ea.confidence) + (1 - eb.confidence)
    assert total.confidence == pytest.approx(max(0, 1 - doubt))


@given(estimates_with_truth(), estimates_with_truth())
def test_ratios_cover_the_ratio(a, b):
    (ea, ta), (eb, tb) = a, b
    if eb.lower == 0:
        with pytest.raises(ZeroDivisionError, match="contains 0"):
            ea / eb
        return
    ratio = ea / eb
    assert ratio.lower <= ta / tb <= ratio.upper
    assert ratio.lower <= ratio.value <= ratio.upper


@given(estimates_with_truth(), numbers)
def test_scaling_covers_the_scaled(a, k):
    e, truth = a
    scaled = k * e
    assert scaled == e * k
    assert scaled.lower <= k * truth <= scaled.upper
    assert scaled.confidence == e.confidence


def test_sum_builtin_and_numbers():
    assert sum([Estimate(1.0, 0.0, 2.0), Estimate(3.0, 3.0, 3.0)]) == Estimate(4.0, 3.0, 5.0)
    assert Estimate(1.0, 0.0, 2.0) + 1 == Estimate(2.0, 1.0, 3.0)
    assert Estimate(4.0, 2.0, 6.0) / 2 == Estimate(2.0, 1.0, 3.0)


@pytest.mark.parametrize("bad", [-1, -0.5, float("nan")])
def test_scaling_needs_a_factor_of_at_least_zero(bad):
    with pytest.raises(ValueError, match="factor must be at least 0"):
        bad * Estimate(1.0, 1.0, 1.0)


@pytest.mark.parametrize("bad", ["1", None, [1], True])
def test_arithmetic_with_other_kinds_is_a_type_error(bad):
    e = Estimate(1.0, 1.0, 1.0)
    for operation in (lambda: e + bad, lambda: e * bad, lambda: e / bad):
        with pytest.raises(TypeError):
            operation()


def test_arrays_of_answers():
    e = Estimate(np.array([1.0, 2.0]), np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    assert e.exact.tolist() == [True, False]
    assert (e + e).value.tolist() == [2.0, 4.0]
    assert (e / Estimate(2.0, 1.0, 4.0)).upper.tolist() == [1.0, 3.0]
    assert e == Estimate(e.value.copy(), e.lower.copy(), e.upper.copy())
    assert e != Estimate(e.value + 1, e.lower, e.upper + 1)
    assert e != 3


def test_confidence_never_falls_below_zero():
    e = Estimate(1.0, 0.0, 2.0, 0.4)
    assert (e + e).confidence == 0
