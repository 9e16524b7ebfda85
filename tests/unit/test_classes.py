"""Classes of sketches: family numbers, subclasses, copies."""

import copy
import pickle

import numpy as np
import pytest

from recency import (
    DecayedSample,
    DyadicEcm,
    ExponentialHistogram,
    NthRecentWave,
    WeightBasedMergingHistogram,
    loads,
)
from recency.decay import Custom, Polynomial
from recency.serialization import known_classes


class Requests(ExponentialHistogram):
    """A user's subclass, which has no bytes of its own."""


@pytest.mark.parametrize(("number", "owner"), [(1, "ExponentialHistogram"), (100, "no class yet")])
def test_family_numbers_below_128_are_for_the_package(number, owner):
    before = known_classes()
    message = rf"family {number} is taken: 128–255 are for classes of your own.*{owner}.*Mine"
    with pytest.raises(TypeError, match=message):

        class Mine(ExponentialHistogram):
            family = number

    assert known_classes() == before
    frame = ExponentialHistogram().to_bytes()
    assert type(loads(frame)) is ExponentialHistogram


@pytest.mark.parametrize("number", [-1, 256, 1 << 40, "200", 200.0, None])
def test_a_family_number_is_one_that_bytes_can_have(number):
    with pytest.raises(TypeError, match=r"family of .*Mine must be .* \[128, 255\], got"):

        class Mine(ExponentialHistogram):
            family = number


def test_a_taken_family_number_is_refused_by_both_names():
    class First(ExponentialHistogram):
        family = 250

    with pytest.raises(TypeError, match=r"family 250 is taken.*First has it.*Second needs"):

        class Second(ExponentialHistogram):
            family = 250

    assert type(loads(First().to_bytes())) is First


def test_a_class_may_be_defined_again():
    def define():
        class Again(ExponentialHistogram):
            family = 251

        return Again

    first, second = define(), define()
    assert type(loads(second().to_bytes())) is second
    assert first is not second


def test_a_pickled_subclass_keeps_its_class():
    sketch = Requests(60, 0.1)
    sketch.update_many([1, 2, 3], at=[10, 20, 30])
    back = pickle.loads(pickle.dumps(sketch))
    assert type(back) is Requests
    assert back == sketch
    back.update(5, at=40)
    assert float(back.query()) == 11
    assert type(copy.copy(sketch)) is type(sketch.copy()) is Requests


@pytest.mark.parametrize(
    "sketch",
    [
        DecayedSample(decay=Custom(lambda age: 1 / (1 + age))),
        WeightBasedMergingHistogram(Custom(lambda age: 1 / (1 + age), kinds={"converging"})),
        WeightBasedMergingHistogram(Polynomial(1)),
        DyadicEcm(universe_bits=8),
        NthRecentWave(),
    ],
    ids=lambda sketch: type(sketch).__name__,
)
@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy])
def test_copies_are_independent_whatever_the_decay(sketch, twin_of):
    sketch = sketch.copy()
    sketch.update_many(np.ones(20, dtype=int), at=np.arange(20))
    twin = twin_of(sketch)
    questions = {"item": 1} if isinstance(sketch, DyadicEcm) else {}
    before = sketch.query(**questions)
    assert twin.query(**questions) == before
    twin.update_many(np.ones(20, dtype=int), at=np.arange(30, 50))
    assert sketch.query(**questions) == before
    assert sketch.latest == 19
