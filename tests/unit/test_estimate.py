import math
from fractions import Fraction

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
def test_scaling_covers_the_product(a, k):
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


INF = math.inf


def whole(value, lower, upper):
    """Return one answer, and the same in an array among others: arithmetic must be the same."""
    return Estimate(value, lower, upper), Estimate(
        np.array([1.0, value]), np.array([1.0, lower]), np.array([1.0, upper])
    )


def assert_alike(one, many, expected):
    assert one == Estimate(*expected)
    assert [field[1] for field in (many.value, many.lower, many.upper)] == list(expected)
    for field in (one.value, one.lower, one.upper):
        assert type(field) is float
        assert field or math.copysign(1, field) == 1


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((1, -INF, 2), (1, 0, INF), (2, -INF, INF)),
        ((INF, INF, INF), (1, -INF, 2), (INF, -INF, INF)),
        ((-INF, -INF, -INF), (1, 0, INF), (-INF, -INF, INF)),
        ((INF, 0, INF), (-INF, -INF, 0), (0, -INF, INF)),
        ((INF, INF, INF), (1, 1, 1), (INF, INF, INF)),
        ((1e308, 1e308, 1e308), (1e308, 0, 1e308), (INF, 1e308, INF)),
        ((-0.0, -0.0, -0.0), (-0.0, -0.0, -0.0), (0, 0, 0)),
    ],
)
def test_an_end_that_is_unknown_stays_unknown_in_a_sum(a, b, expected):
    (one, many), other = whole(*a), Estimate(*b)
    assert_alike(one + other, many + other, expected)
    assert_alike(other + one, other + many, expected)


@pytest.mark.parametrize(
    ("a", "factor", "expected"),
    [
        ((1, -INF, INF), 0, (0, 0, 0)),
        ((INF, 0, INF), 0.0, (0, 0, 0)),
        ((1, -INF, INF), 2, (2, -INF, INF)),
        ((0, 0, 1), INF, (0, 0, INF)),
        ((-1, -2, 0), 0, (0, 0, 0)),
    ],
)
def test_zero_times_an_unknown_end_is_zero(a, factor, expected):
    one, many = whole(*a)
    assert_alike(one * factor, many * factor, expected)
    assert_alike(factor * one, factor * many, expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # b may be as large as one likes, so ratios come as near to 0 as one likes.
        ((4, 3, INF), (2, 1, INF), (2, 0, INF)),
        ((4, 3, 5), (2, 1, INF), (2, 0, 5)),
        ((4, -INF, 5), (2, 1, INF), (2, -INF, 5)),
        ((4, -INF, INF), (2, 1, INF), (2, -INF, INF)),
        ((4, 3, INF), (-2, -INF, -1), (-2, -INF, 0)),
        ((-4, -INF, -3), (-2, -INF, -1), (2, 0, INF)),
        ((4, 3, INF), (INF, INF, INF), (0, 0, INF)),
        ((INF, 3, INF), (INF, 1, INF), (0, 0, INF)),
        ((4, 3, INF), (2, 2, 2), (2, 1.5, INF)),
        ((0, 0, 0), (-2, -3, -1), (0, 0, 0)),
    ],
)
def test_ratios_of_unknown_ends_are_their_limits(a, b, expected):
    (one, many), other = whole(*a), Estimate(*b)
    assert_alike(one / other, many / other, expected)


ends = st.floats(allow_nan=False)


@st.composite
def intervals_with_truth(draw):
    lower, truth, upper = sorted(draw(st.lists(ends, min_size=3, max_size=3)))
    truth = min(max(truth, -1e150), 1e150)
    return (Estimate(truth, lower, upper), truth) if lower <= truth <= upper else None


@given(intervals_with_truth(), intervals_with_truth(), st.floats(0, 1e150))
def test_intervals_with_infinite_ends_cover_the_truth(a, b, factor):
    if a is None or b is None:
        return
    (ea, ta), (eb, tb) = a, b
    answers = [(ea + eb, ta + tb), (ea * factor, ta * factor)]
    if not eb.lower <= 0 <= eb.upper:
        answers.append((ea / eb, ta / tb))
    for answer, truth in answers:
        assert answer.lower <= truth <= answer.upper
        assert answer.lower <= answer.value <= answer.upper


def test_a_nan_value_stays_nan():
    e = Estimate(math.nan, 0.0, INF)
    for answer in (e + 1, e * 0, e / 2, e / Estimate(1.0, 1.0, INF)):
        assert math.isnan(answer.value)
        assert not math.isnan(answer.lower)
        assert not math.isnan(answer.upper)


def test_certain_bounds_stay_certain_when_sums_are_rounded():
    large, one = Estimate(2.0**53, 2.0**53, 2.0**53), Estimate(1.0, 1.0, 1.0)
    total = large + one
    assert int(total.lower) <= 2**53 + 1 <= int(total.upper)
    many = Estimate(np.full(2, 2.0**53), np.full(2, 2.0**53), np.full(2, 2.0**53)) + one
    assert (many.upper >= 2.0**53 + 2).all()


def test_integers_beyond_floats_are_refused():
    for combine in (lambda each: each + 10**400, lambda each: each * 10**400):
        with pytest.raises(ValueError, match="within float64"):
            combine(Estimate(1.0, 1.0, 1.0))


any_float = st.floats(allow_nan=False, allow_infinity=False)
around = st.sampled_from([5e-324, 2.0**-1022, 1e-300, 0.1, 1.0, 3.0, 2.0**53, 1e308])


def assert_tight(estimate, least, most):
    """Assert that bounds hold for these fractions, and that the next floats inwards do not."""
    for end, inward, truth in ((estimate.lower, INF, least), (estimate.upper, -INF, most)):
        further = math.nextafter(end, inward)
        side = 1 if inward > 0 else -1
        assert end == -inward or side * Fraction(end) <= side * truth
        assert further == inward or further == -inward or side * Fraction(further) > side * truth


@given(any_float | around, any_float | around, any_float | around)
def test_results_are_rounded_outwards_and_no_further(x, y, z):
    lower, upper = sorted([x, y])
    estimate, (least, most, number) = (
        Estimate(lower, lower, upper),
        map(Fraction, (lower, upper, z)),
    )
    assert_tight(estimate + z, least + number, most + number)
    if z >= 0:
        assert_tight(estimate * z, least * number, most * number)
    if z:
        assert_tight(estimate / z, *sorted([least / number, most / number]))


def test_exact_results_stay_exact():
    three = Estimate(3.0, 3.0, 3.0)
    assert 2 * three == three + three == Estimate(6.0, 6.0, 6.0)
    assert three / 3 == Estimate(1.0, 1.0, 1.0)
    assert (three / 10).lower < (three / 10).upper


@pytest.mark.parametrize("number", [2**53 + 1, np.int64(2**53 + 1), np.uint64(2**53 + 1)])
def test_integers_that_floats_cannot_hold_are_rounded_outwards(number):
    for answer in (Estimate(0.0, 0.0, 0.0) + number, Estimate(1.0, 1.0, 1.0) * number):
        assert int(answer.lower) < 2**53 + 1 < int(answer.upper)
    ratio = Estimate(1.0, 1.0, 1.0) / number
    assert Fraction(ratio.lower) < Fraction(1, 2**53 + 1) < Fraction(ratio.upper)


@pytest.mark.parametrize("bad", [np.complex128(1), np.timedelta64(1, "s")])
def test_numbers_that_are_not_real_are_refused(bad):
    for combine in (lambda each: each + bad, lambda each: each * bad, lambda each: each / bad):
        with pytest.raises(TypeError):
            combine(Estimate(1.0, 1.0, 1.0))


def test_ends_beyond_floats_are_infinite_only_outwards():
    large = Estimate(1e308, 1e308, 1e308)
    for answer in (large + large, large * 10, large / 0.1):
        assert (answer.lower, answer.upper) == (1.7976931348623157e308, INF)
