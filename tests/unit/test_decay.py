"""Decay functions against their definitions, and their inverses against brute force."""

import copy
import math
import pickle
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency.core.arrays import INT64_MAX
from recency.core.elementary import exp2, log2, power
from recency.decay import (
    KINDS,
    Chordal,
    Custom,
    Decay,
    Exponential,
    FiniteExponential,
    NoDecay,
    PolyExponential,
    Polynomial,
    SlidingWindow,
    SuperExponential,
)


def gently(x):
    return 1 / (1 + np.sqrt(x))


def name(parameter):
    return f"{type(parameter).__name__}-{getattr(parameter, 'scale', '')}"


# Each with its definition, in plain Python, and its classes.
DEFINED = [
    (NoDecay(), lambda x: 1.0, {"converging"}),
    (SlidingWindow(7.5), lambda x: float(x < 7.5), {"finite"}),
    (Exponential(0.3), lambda x: 2 ** (-0.3 * x), {"converging", "exponential"}),
    (Exponential(half_life=12), lambda x: 0.5 ** (x / 12), {"converging", "exponential"}),
    (Polynomial(1.5), lambda x: (x + 1) ** -1.5, {"converging"}),
    (PolyExponential(2, 2), lambda x: (x + 1) ** 2 * 2 ** (-2 * x), {"super_exponential"}),
    (SuperExponential(0.01, 1.5), lambda x: 2 ** (-0.01 * x**1.5), {"super_exponential"}),
    (Chordal(20), lambda x: max(0.0, 1 - x / 20), {"finite"}),
    (
        FiniteExponential(0.25, 0.1),
        lambda x: 2 ** (-0.25 * x) if 2 ** (-0.25 * x) >= 0.1 else 0.0,
        {"finite"},
    ),
    (Custom(gently), lambda x: 1 / (1 + math.sqrt(x)), set()),
]
DECAYS = [decay for decay, *_ in DEFINED]
SCALED = [
    SlidingWindow(2.5, scale=7),
    Exponential(1, scale=3600),
    Polynomial(2, scale=10),
    PolyExponential(1, 1.5, scale=50),
    SuperExponential(0.5, 2, scale=100),
    Chordal(1.5, scale=1000),
    FiniteExponential(1, 0.01, scale=60),
    Custom(gently, scale=30),
]


@pytest.mark.parametrize(("decay", "definition", "kinds"), DEFINED, ids=name)
def test_values_and_classes_are_those_of_the_definition(decay, definition, kinds):
    ages = np.arange(200)
    expected = [min(1.0, definition(int(age))) for age in ages]
    assert decay(ages) == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert decay(5) == pytest.approx(definition(5), rel=1e-12)
    assert isinstance(decay(5), float)
    assert set(decay.kinds) == kinds <= set(KINDS)


@pytest.mark.parametrize("decay", DECAYS + SCALED, ids=name)
def test_no_decay_increases_or_leaves_the_unit_interval(decay):
    ages = np.unique(np.concatenate([np.arange(3000), np.geomspace(1, 2.0**62, 2000).round()]))
    values = decay(ages)
    assert (values >= 0).all()
    assert (values <= 1).all()
    assert (np.diff(values) <= 1e-15).all()


@pytest.mark.parametrize("decay", DECAYS + SCALED, ids=name)
def test_classes_mean_what_the_paper_says(decay):
    values = decay(np.arange(400) * decay.scale)
    if "finite" in decay.kinds:
        reach = decay.reach
        assert decay(reach) == 0 < decay(reach - 1)
    else:
        assert decay.reach is None
    ratios = values[1:][values[1:] > 1e-290] / values[:-1][values[1:] > 1e-290]
    if "converging" in decay.kinds:
        assert (np.diff(ratios) >= -1e-12).all()
    if "exponential" in decay.kinds:
        assert np.ptp(ratios) <= 1e-12
    if "super_exponential" in decay.kinds:
        assert (ratios[20:] < 0.99).all()


@pytest.mark.parametrize("decay", SCALED, ids=name)
def test_scale_is_ticks_per_unit_of_age(decay):
    plain = copy.copy(decay)
    object.__setattr__(plain, "scale", 1.0)
    units = np.arange(30)
    assert decay(units * decay.scale) == pytest.approx(plain(units), rel=1e-12, abs=1e-300)


def first_age_by_search(decay, weight, value, most=5000):
    whole = decay.integral(float(weight), np.arange(most))
    below = np.flatnonzero(whole < value)
    return int(below[0]) if below.size else None


@pytest.mark.parametrize("decay", DECAYS + SCALED, ids=name)
def test_the_inverse_of_the_integral_version_is_exact(decay):
    rng = np.random.default_rng(1)
    weights = np.append(rng.integers(0, 10**6, 150), [0, 1, 1, 2])
    values = np.append(rng.integers(-1, 10**4, 150), [0, 1, 2, 1])
    ages = decay.integral_inverse(weights, values)
    for weight, value, age in zip(weights.tolist(), values.tolist(), ages.tolist(), strict=True):
        expected = first_age_by_search(decay, weight, value)
        if expected is not None:
            assert age == expected, (weight, value)
        else:
            assert age >= 5000, (weight, value)
        assert decay.integral_inverse(weight, value) == age


@given(
    st.sampled_from([d for d in DECAYS + SCALED if d != NoDecay()]),
    st.floats(1e-9, 1e12),
    st.floats(1e-12, 1e12),
)
@settings(max_examples=400)
def test_first_age_below_is_the_least_such_age(decay, weight, bound):
    age = int(decay.first_age_below(np.array([weight]), np.array([bound]))[0])
    assert 0 <= age <= INT64_MAX
    if age < 2**50:  # where floats tell ticks apart
        assert weight * decay(age) < bound
    if 0 < age < 2**50:
        assert weight * decay(age - 1) >= bound


def test_a_decay_that_never_falls_has_no_first_age():
    assert NoDecay().integral_inverse(5, 5) == INT64_MAX
    assert NoDecay().integral_inverse(5, 6) == 0
    assert Chordal(5).integral_inverse(5, 0) == INT64_MAX
    assert Chordal(5).integral_inverse([5, 5], [0, 1]).tolist() == [INT64_MAX, 5]


def test_integral_is_the_floor_of_the_decayed_weight():
    """Cormode, Tirthapura & Xu 2009: ⌊w/2ˣ⌋ is an integral decay."""
    weights, ages = np.meshgrid(np.arange(100), np.arange(10))
    expected = weights >> ages
    whole = Exponential(1).integral(weights.ravel(), ages.ravel())
    assert whole.tolist() == expected.ravel().tolist()
    assert whole.dtype == np.int64
    assert Exponential(1).integral(9, 1) == 4


@pytest.mark.parametrize(
    "decay", [d for d in DECAYS + SCALED if not isinstance(d, Custom)], ids=name
)
def test_decays_are_values(decay):
    assert pickle.loads(pickle.dumps(decay)) == decay
    assert Decay.decoded(decay.encoded()) == decay
    assert hash(copy.deepcopy(decay)) == hash(decay)
    assert decay != type(decay)(*decay.encoded()[1:-1], scale=decay.scale / 2)
    assert [other for other in DECAYS + SCALED if other == decay] == [decay]


def test_bounds_are_integers_not_floats():
    assert NoDecay().integral_inverse(2.0**53, 2**53 + 1) == 0
    assert NoDecay().integral_inverse(2.0**53, 2**53) == INT64_MAX


def test_custom_functions_get_arrays_and_may_underflow():
    assert "converging" in Custom(lambda x: np.exp(-x), {"converging"}).kinds
    slow = Custom(np.vectorize(lambda x: 1 / (1 + x)))
    assert slow(1) == 0.5
    assert slow(np.empty(0)).tolist() == []

    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return 1 / (1 + x)

    with pytest.raises(TypeError, match="hashable"):
        Custom(Unhashable())


def test_custom_functions_can_be_compared_but_not_encoded():
    assert Custom(gently) == Custom(gently) != Custom(gently, scale=2)
    assert pickle.loads(pickle.dumps(Custom(gently)))(3) == gently(3)
    with pytest.raises(ValueError, match="cannot encode a Custom decay"):
        Custom(gently).encoded()


EXTREMES = [5e-324, 1e-300, 1e-9, 0.5, 1e9, 1e300, 1.7e308]


@pytest.mark.parametrize("scale", EXTREMES)
@pytest.mark.parametrize("x", EXTREMES)
def test_extreme_parameters_neither_warn_nor_break(x, scale):
    decays = [NoDecay(scale), SlidingWindow(x, scale), Exponential(x, scale), Chordal(x, scale)]
    decays += [Polynomial(x, scale), SuperExponential(x, 1.5, scale), SuperExponential(x, 2, scale)]
    decays += [FiniteExponential(x, 0.5, scale)]
    if x < 1e300:
        decays += [PolyExponential(x, 1.5 * x + 1e-323, scale), PolyExponential(1e-9, 1 + x, scale)]
    ages = np.array([0, 1, 2, 1000, 2**40, 2**62])
    for decay in decays:
        values = decay(ages)
        assert (np.diff(values) <= 1e-15).all()
        assert ((values >= 0) & (values <= 1)).all()
        inverse = decay.first_age_below(np.array([1.0, 1e300, 1e-300]), np.array([0.5, 0.5, 0.5]))
        assert (inverse >= 0).all()
        assert decay.reach is None or decay.reach >= 0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SlidingWindow(0), ValueError, "width must be above 0"),
        (lambda: SlidingWindow("5"), TypeError, "width"),
        (lambda: Chordal(float("nan")), ValueError, "width"),
        (lambda: Polynomial(-1), ValueError, "exponent must be above 0"),
        (lambda: Polynomial(1, scale=0), ValueError, "scale must be above 0"),
        (lambda: Polynomial(1, scale=math.inf), ValueError, "scale"),
        (lambda: Exponential(), TypeError, "either rate or half_life"),
        (lambda: Exponential(1, half_life=1), TypeError, "either rate or half_life"),
        (lambda: Exponential(half_life=0), ValueError, "half_life must be above 0"),
        (lambda: Exponential(half_life="1 hour"), TypeError, "half_life"),
        (lambda: SuperExponential(1, 1), ValueError, "power must be above 1"),
        (lambda: PolyExponential(2, 1.9), ValueError, "rate must be at least 2"),
        (lambda: PolyExponential(2, 2, scale=100), ValueError, "rate must be at least 2.87"),
        (lambda: FiniteExponential(1, 2), ValueError, "floor must be in"),
        (lambda: Custom(5), TypeError, "fn must be a function"),
        (lambda: Custom(lambda x: x / (1 + x)), ValueError, "must not increase with age"),
        (lambda: Custom(lambda x: 2 - x / (1 + x)), ValueError, r"values in \[0, 1\]"),
        (lambda: Custom(lambda x: np.full_like(x, np.nan)), ValueError, r"values in \[0, 1\]"),
        (lambda: Custom(lambda x: 0.5), ValueError, "one value per age"),
        (lambda: Custom(lambda x: x.astype(str)), TypeError, "must return numbers"),
        (lambda: Custom(gently, kinds={"slow"}), ValueError, "kinds"),
        (lambda: Custom(gently, kinds="finite"), TypeError, "collection"),
        (lambda: Custom(gently, kinds={"finite"}), ValueError, "above 0"),
        (
            lambda: Custom(lambda x: 2.0 ** -(x**1.5), kinds=["converging"]),
            ValueError,
            "converging",
        ),
        (lambda: Polynomial(1)(-1), ValueError, "age must be at least 0"),
        (lambda: Polynomial(1)([3, -0.5]), ValueError, "age must be at least 0"),
        (lambda: Polynomial(1)("5"), TypeError, "age"),
        (lambda: Polynomial(1).integral(-1, 5), ValueError, "weight"),
        (lambda: Polynomial(1).integral(math.nan, 5), ValueError, "weight"),
        (lambda: Polynomial(1).integral_inverse(1, 0.5), TypeError, "value"),
        (lambda: Decay.decoded(()), ValueError, "no such decay"),
        (lambda: Decay.decoded(("Custom", 1.0, 1.0, 1.0)), ValueError, "no such decay"),
        (lambda: Decay.decoded(("Polynomial", 1.0)), ValueError, "no such decay"),
        (lambda: Decay.decoded(("Decay", 1.0)), ValueError, "no such decay"),
        (lambda: Decay.decoded(("Polynomial", -1.0, 1.0)), ValueError, "exponent"),
    ],
)
def test_bad_decays_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_elementary_functions_are_accurate():
    rng = np.random.default_rng(0)
    exponents = np.concatenate([rng.uniform(-1021, 1020, 300), rng.uniform(-1, 1, 300), [0, -1022]])
    numbers = np.concatenate([2.0 ** rng.uniform(-1000, 1000, 300), rng.uniform(0.9, 1.1, 300)])
    with localcontext() as context:
        context.prec = 40
        ln2 = Decimal(2).ln()
        powers = [(Decimal(x) * ln2).exp() for x in exponents.tolist()]
        logs = [Decimal(x).ln() / ln2 for x in numbers.tolist()]
        for got, want in zip(exp2(exponents).tolist(), powers, strict=True):
            assert abs(Decimal(got) - want) <= want * Decimal(2) ** -50
        for got, want in zip(log2(numbers).tolist(), logs, strict=True):
            assert abs(Decimal(got) - want) <= Decimal(2) ** -50 * max(1, abs(want))
    assert exp2(np.array([-1023.0, -1e300, -np.inf])).tolist() == [0.0, 0.0, 0.0]
    assert power(np.array([1.0, 4.0, 100.0]), -0.5) == pytest.approx([1, 0.5, 0.1], rel=1e-15)


def test_the_elementary_functions_give_the_same_bits_everywhere():
    """Golden bits: the same on every machine."""
    x = np.array([-0.3, 0.1, 17.77, -500.123])
    assert [value.hex() for value in exp2(x).tolist()] == GOLDEN_POWERS
    assert [value.hex() for value in log2(np.abs(x)).tolist()] == GOLDEN_LOGS


GOLDEN_POWERS = [
    "0x1.9fdf8bcce533ep-1",
    "0x1.125fbee250664p+0",
    "0x1.b48c8f7f24cc8p+17",
    "0x1.d6284b0b8ec9ap-501",
]
GOLDEN_LOGS = [
    "-0x1.bca9c6f53897ap+0",
    "-0x1.a934f0979a371p+1",
    "0x1.09b0133f23151p+2",
    "0x1.1eea9ca35b2d4p+3",
]
