"""Questions to all keys of a bank: each answer is that of the key's own sketch."""

import math

import numpy as np
import pytest

from recency import (
    Bank,
    NoAnswerError,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
)
from recency.algorithm import View
from recency.core import by_key
from recency.decay import FiniteExponential, NoDecay, Polynomial


def answers_of_each(bank, question, *args, **kwargs):
    for sketch in bank._keyed.split():
        try:
            yield question(bank.prototype._with(sketch), *args, **kwargs)
        except NoAnswerError:
            yield None


def compare(bank, question, *args, **kwargs):
    keyed = bank._keyed
    together = question.question.answer(View(keyed.algorithm, keyed.state()), *args, **kwargs)
    for i, alone in enumerate(answers_of_each(bank, question, *args, **kwargs)):
        if alone is None:
            assert np.isnan(together.value[i]).all()
            assert np.isinf([together.lower[i], together.upper[i]]).all()
            continue
        assert np.array_equal(together.value[i], alone.value)
        assert np.array_equal(together.lower[i], alone.lower)
        assert np.array_equal(together.upper[i], alone.upper)
        assert together.confidence[i] == alone.confidence


def bank_of(prototype, repeated=False, **columns):
    rng = np.random.default_rng(4)
    size = 4_000
    bank = Bank(prototype, stream=2)
    keys = rng.zipf(1.4, size) % 40  # some with hundreds of events, and some with one
    ids = {"id": rng.integers(0, 90, size)} if repeated else {}
    at = ids["id"] if repeated else rng.integers(0, 1000, size)
    columns = {name: make(rng, size) for name, make in columns.items()}
    if repeated:
        columns = {name: ids["id"].astype(float) for name in columns}
    bank.update_many(keys, at=at, **columns, **ids)
    return bank


@pytest.mark.parametrize("window", [None, 400, 3])
@pytest.mark.parametrize("capacity", [2, 20, 5000])
def test_distinct_items(window, capacity):
    bank = bank_of(
        RandomizedWave(capacity=capacity, keep_items=True),
        item=lambda rng, size: rng.integers(0, 500, size),
    )
    compare(bank, RandomizedWave.query, window)
    compare(bank, RandomizedWave.query, window, now=1500)
    compare(bank, RandomizedWave.query, window, where=lambda items: items > np.median(items))


@pytest.mark.parametrize("window", [None, 400, 3])
@pytest.mark.parametrize("capacity", [2, 20, 5000])
@pytest.mark.parametrize("repeated", [False, True])
def test_sums_and_ranks(window, capacity, repeated):
    def values(rng, size):
        return rng.random(size) * 10.0 ** rng.integers(-6, 6, size)

    bank = bank_of(SumWave(capacity=capacity), repeated, value=values)
    compare(bank, SumWave.query, window)
    ranks = bank_of(QuantileWave(capacity=capacity), repeated, value=values)
    compare(ranks, QuantileWave.query, 0.3, window)
    compare(ranks, QuantileWave.quantiles, [0, 0.25, 0.99, 1], window)
    compare(ranks, QuantileWave.rank, 1.0, window, now=1200)
    compare(ranks, QuantileWave.count, window)


@pytest.mark.parametrize(
    ("decay", "capacity"),
    [
        (Polynomial(1.5), 2),
        (Polynomial(1, scale=50), 20),
        (Polynomial(1.5), None),
        (NoDecay(), 5),
        (FiniteExponential(0.01, 0.01), 5000),
    ],
)
@pytest.mark.parametrize("repeated", [False, True])
def test_correlated_sums(decay, capacity, repeated):
    def weights(rng, size):
        return rng.integers(0, 9, size) * 10.0 ** rng.integers(-6, 6, size)

    bank = bank_of(
        WeightBasedMergingHistogram(decay, capacity=capacity),
        repeated,
        value=lambda rng, size: rng.integers(0, 1000, size),
        weight=weights,
    )
    for ask in (WeightBasedMergingHistogram.query, WeightBasedMergingHistogram.count):
        for threshold in (0, 50, 990, 2000):
            compare(bank, ask, threshold)
            compare(bank, ask, threshold, now=1500)
    compare(bank, WeightBasedMergingHistogram.range_sum, 20, 200)


KINDS = {
    "fractions": lambda rng, n: rng.random(n),
    "far apart": lambda rng, n: rng.random(n) * 10.0 ** rng.integers(-30, 30, n),
    "integers": lambda rng, n: rng.integers(0, 9, n) * 1.0,
    "smallest": lambda rng, n: rng.integers(0, 2**20, n) * 5e-324,
    "largest": lambda rng, n: rng.random(n) * 2.0 ** rng.integers(900, 960, n),
    "all": lambda rng, n: 2.0 ** rng.integers(-1074, 960, n),
}


@pytest.mark.parametrize("values_of", KINDS.values(), ids=KINDS)
def test_sums_by_key_are_rounded_once(values_of):
    rng = np.random.default_rng(5)
    for size in (0, 1, 5, 60, 3000):
        keys, values = rng.integers(0, 7, size), values_of(rng, size)
        sums = by_key.float_sums(keys, values, 7)
        assert sums.tolist() == [math.fsum(values[keys == key].tolist()) for key in range(7)]
