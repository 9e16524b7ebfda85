import math

import numpy as np
import pytest

from recency.core.sizing import (
    capacity_for_count,
    capacity_for_ranks,
    poisson_at_most,
    poisson_interval,
    rank_error_for,
    relative_error_for,
)


def at_most(k, mean):
    """P[Poi(mean) ≤ k], term by term."""
    return math.fsum(
        math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(int(k) + 1)
    )


@pytest.mark.parametrize("mean", [0.01, 0.7, 3, 40, 1000, 5000])
def test_poisson_probabilities_against_plain_sums(mean):
    spread = math.sqrt(mean)
    ks = sorted({max(0, math.floor(mean + z * spread)) for z in (-5, -2, -0.5, 0, 0.5, 2, 5)})
    result = poisson_at_most(np.array(ks, dtype=float), np.full(len(ks), float(mean)))
    assert result == pytest.approx([at_most(k, mean) for k in ks], rel=1e-9, abs=1e-14)
    assert poisson_at_most(np.array([-1.0]), np.array([float(mean)])).tolist() == [0.0]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 50, 1000])
@pytest.mark.parametrize("doubt", [0.2, 0.05, 0.01, 1e-4])
def test_poisson_intervals_are_garwoods(n, doubt):
    lower, upper = poisson_interval(n, doubt)
    assert at_most(n, upper) == pytest.approx(doubt / 2, rel=1e-6)
    if n:
        assert 1 - at_most(n - 1, lower) == pytest.approx(doubt / 2, rel=1e-6)
    else:
        assert lower == 0


def test_capacity_and_error_are_inverse():
    for error, doubt in [(0.3, 0.05), (0.1, 0.01)]:
        capacity = capacity_for_count(error, doubt)
        assert relative_error_for(capacity, doubt) <= error
        # the failure probability has small steps, so "smallest" is exact to a few per cent
        assert relative_error_for(capacity * 9 // 10, doubt) > error
    capacity = capacity_for_ranks(0.1, 0.05)
    assert rank_error_for(capacity, 0.05) <= 0.1 < rank_error_for(capacity - 2, 0.05)
    assert relative_error_for(1, 0.05) > 0.5
