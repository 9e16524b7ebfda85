"""Values that may be answers are never rounded: integers that floats cannot hold are refused."""

from fractions import Fraction

import numpy as np
import pytest

from recency import DecayedSample, QuantileWave, SumWave, WeightBasedMergingHistogram
from recency.decay import NoDecay, Polynomial

SKETCHES = {
    "quantiles": QuantileWave,
    "decayed": DecayedSample,
    "correlated": lambda: WeightBasedMergingHistogram(Polynomial(1)),
}
ROUNDED = [2**53 + 1, 2**62 + 1, 2**63 - 1]


@pytest.mark.parametrize("make", SKETCHES.values(), ids=SKETCHES)
@pytest.mark.parametrize("value", ROUNDED)
def test_an_integer_that_would_be_rounded_is_refused(make, value):
    sketch = make()
    for refused in (
        lambda: sketch.update(value, at=1),
        lambda: sketch.update_many([1, value], at=[1, 2]),
        lambda: sketch.update_many(np.array([1, value]), at=[1, 2]),
        lambda: sketch.update_many(np.array([1, value], dtype=np.uint64), at=[1, 2]),
        lambda: sketch.update_many(value, at=[1, 2]),
        lambda: sketch.update_many([1.5, value], at=[1, 2]),
    ):
        with pytest.raises(ValueError, match=f"value must be exact as float64.*{value}"):
            refused()
    assert sketch.is_empty


@pytest.mark.parametrize("make", SKETCHES.values(), ids=SKETCHES)
def test_large_integers_that_floats_hold_are_answered_exactly(make):
    sketch = make()
    value = 2**60 + 2**10
    sketch.update_many([value] * 3, at=[1, 2, 3], id=[1, 2, 3])
    ask = getattr(sketch, "quantile", sketch.query)
    assert int(ask(0.5).value) == value


def test_thresholds_are_not_rounded_either():
    wave = QuantileWave()
    wave.update(1.0, at=1)
    with pytest.raises(ValueError, match="value must be exact"):
        wave.rank(2**53 + 1)


def summed(values):
    sketch = SumWave()
    sketch.update_many(values, at=0)
    return sketch.query()


def weighed(values):
    sketch = DecayedSample()
    sketch.update_many(1, at=0, id=np.arange(len(values)), weight=values)
    return sketch.query()


def bucketed(values):
    sketch = WeightBasedMergingHistogram(Polynomial(1))
    sketch.update_many(1, at=0, id=np.arange(len(values)), weight=values)
    return sketch.query()


@pytest.mark.parametrize("ask", [summed, weighed, bucketed])
@pytest.mark.parametrize(
    "values",
    [
        [2**53 + 1] * 2,
        [2**53, 1],
        [2**53 + 1, 2**60 + 1, 5],
        [2**62 + 1, 2**63 - 1],
        [2**55 + 3] * 9,
    ],
)
def test_certain_sums_cover_integers_that_were_rounded(ask, values):
    answer = ask(np.array(values))
    assert answer.confidence == 1.0
    assert Fraction(answer.lower) <= sum(values) <= Fraction(answer.upper)
    assert float(answer.upper - answer.lower) <= 1e-15 * sum(values)


@pytest.mark.parametrize("make", [SumWave, DecayedSample, SKETCHES["correlated"]])
def test_large_integers_beside_dropped_small_ones_are_covered(make):
    """Three integers were rounded up by more than the sum of the dropped ones."""
    values = [2**56 + 9] * 3 + [1] * 8
    for seed in range(50):
        sketch = seeded(make, seed)
        column = {"value": values} if make is SumWave else {"value": 1, "weight": values}
        sketch.update_many(**column, at=0, id=np.arange(11))
        answer = sketch.query(decay=NoDecay()) if make is DecayedSample else sketch.query()
        assert answer.lower <= sum(values) <= answer.upper  # Python compares them exactly


def seeded(make, seed):
    """Return a sketch with such a small capacity that some events are dropped."""
    settings = {"capacity": 3, "seed": seed}
    if make in (SumWave, DecayedSample):
        return make(**settings)
    return WeightBasedMergingHistogram(NoDecay(), **settings)


def test_small_sums_of_integers_are_exact():
    answer = summed(np.array([2**52, 7]))
    assert answer.lower == answer.upper == 2**52 + 7


LONG = np.longdouble(1) + np.finfo(np.longdouble).eps


@pytest.mark.skipif(float(LONG) == LONG, reason="long doubles are no longer than others here")
@pytest.mark.parametrize("bad", [LONG, np.array([1, LONG]), [1.0, LONG], np.array(LONG)])
def test_long_doubles_are_not_rounded_silently(bad):
    for sketch in (SumWave(), QuantileWave(), DecayedSample()):
        with pytest.raises(ValueError, match="exact as float64"):
            sketch.update_many(bad, at=1)
        assert sketch.is_empty
        sketch.update_many(np.array([1.5, 2], dtype=np.longdouble), at=1)
        assert not sketch.is_empty


@pytest.mark.skipif(float(LONG) == LONG, reason="long doubles are no longer than others here")
def test_no_parameter_may_be_a_long_double():
    with pytest.raises(ValueError, match="value must be exact as float64"):
        QuantileWave().rank(LONG)
    with pytest.raises(ValueError, match="value must be exact as float64"):
        SumWave().update(LONG, at=1)
