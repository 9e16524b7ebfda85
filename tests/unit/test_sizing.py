import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from recency.core.sizing import (
    _NODES,
    _WEIGHTS,
    capacity_for_count,
    capacity_for_ranks,
    kept_rank_error,
    kept_relative_error,
    least_means,
    poisson_at_most,
    weighted_interval,
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
    lower, upper = weighted_interval(n, n, doubt)
    assert at_most(n, upper) == pytest.approx(doubt / 2, rel=1e-6)
    if n:
        assert 1 - at_most(n - 1, lower) == pytest.approx(doubt / 2, rel=1e-6)
    else:
        assert lower == 0


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999, 1 - 1e-6])
@pytest.mark.parametrize("bounds", [1, 100])
def test_least_means_of_many_are_not_above_the_lower_ends_of_intervals(confidence, bounds):
    n = np.unique(np.geomspace(1, 10**6, 60).astype(int))
    exact = [
        weighted_interval(float(k), float(k), 0.7 * (1 - confidence) / bounds)[0]
        for k in n.tolist()
    ]
    found = least_means(n.astype(float), n.astype(float), confidence, bounds)
    room = 0.01 * np.sqrt(n) if 0.7 * (1 - confidence) / bounds > 0.07 else 1e-6 * n
    assert (found <= exact + room).all()
    assert (found >= np.array(exact) - 0.05 * np.sqrt(n)).all()
    wider = least_means(n.astype(float), 3.0 * n, confidence, bounds)
    assert (wider <= found).all()
    assert wider[0] == 0


def test_capacity_and_error_are_inverse():
    for error, doubt in [(0.3, 0.05), (0.1, 0.01)]:
        capacity = capacity_for_count(error, doubt)
        assert kept_relative_error(capacity, error, doubt) == error
        assert kept_relative_error(capacity, 0.5, doubt) <= error
        # the failure probability has small steps, so "smallest" is exact to a few per cent
        assert kept_relative_error(capacity * 9 // 10, error, doubt) > error
    capacity = capacity_for_ranks(0.1, 0.05)
    assert kept_rank_error(capacity, 0.5, 0.05) <= 0.1 < kept_rank_error(capacity - 2, 0.5, 0.05)
    assert kept_relative_error(1, 0.1, 0.05) > 0.5


@pytest.mark.parametrize(("error", "doubt"), [(0.5, 1e-4), (0.3, 0.2), (0.2, 0.05), (0.7, 1e-6)])
def test_coarse_samples_keep_their_guarantee_between_grid_points(error, doubt):
    capacity = capacity_for_count(error, doubt)
    worst = 0.0
    for octave in np.geomspace(0.71, 1.41, 500):
        means = capacity * octave * 2.0 ** np.arange(-2, 4)
        low, high = np.floor(means * (1 - error)), np.ceil(means * (1 + error)) - 1
        # errors above ε: exactly ε is allowed
        low = np.where(low == means * (1 - error), low - 1, low)
        misses = poisson_at_most(low, means) + 1 - poisson_at_most(high, means)
        overflows = 1 - poisson_at_most(np.full(means.size, float(capacity)), means)
        worst = max(worst, np.minimum(misses, overflows).sum())
    assert worst <= doubt * 1.001


def test_large_samples_are_scaled_and_impossible_ones_refused():
    assert capacity_for_count(0.001, 0.05) < 1.1 * (1.96 / 0.001) ** 2
    assert 0 < kept_relative_error(2**31, 0.5, 0.05) < 1e-4
    assert kept_relative_error(5, 1e-170, 0.05) > 0.5
    for error in (1e-6, 5e-324):
        with pytest.raises(ValueError, match="relative_error must be larger"):
            capacity_for_count(error, 0.05)
        with pytest.raises(ValueError, match="rank_error must be larger"):
            capacity_for_ranks(error, 0.05)


def legendre(n, x):
    """Pₙ(x) and its derivative."""
    before, value = Decimal(1), x
    for k in range(2, n + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, n * (x * value - before) / (x * x - 1)


def test_the_points_of_gauss_rule_are_rounded_correctly():
    nodes, weights = np.polynomial.legendre.leggauss(24)
    assert np.abs(_NODES - nodes).max() <= 1e-15
    # The outermost weights of NumPy 2.4 are off by 1.5e-15.
    assert np.abs(_WEIGHTS - weights).max() <= 2e-15
    with localcontext() as context:
        context.prec = 50
        for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
            x = Decimal(node)
            for _ in range(4):
                value, slope = legendre(24, x)
                x -= value / slope
            assert float(x) == node
            assert float(2 / ((1 - x * x) * legendre(24, x)[1] ** 2)) == weight


@pytest.mark.parametrize(
    ("error", "doubt", "nested", "capacity"),
    [
        (0.05, 0.05, False, 1677),
        (0.05, 1 - 0.95, False, 1677),
        (0.05, 1 - 0.95, True, 3301),
        (0.01, 0.01, False, 67_892),
        (0.1, 0.01, False, 733),
        (0.2, 0.1, True, 170),
        (0.5, 1e-4, False, 97),
        (0.3, 1e-12, True, 1449),
        (0.9, 0.5, False, 2),
        (0.7, 1e-6, True, 167),
        (0.001, 0.05, False, 4_050_819),
        (0.0002, 1e-6, True, 1_224_641_539),
        (0.45, 1e-9, False, 286),
        (0.62, 1e-12, True, 439),
        (0.07, 0.5, True, 439),
    ],
)
def test_capacities_do_not_change(error, doubt, nested, capacity):
    """They are in the bytes of sketches, and only sketches of one capacity can be merged."""
    assert capacity_for_count(error, doubt, nested) == capacity


def test_capacities_for_ranks_do_not_change():
    cases = {
        (0.05, 1 - 0.95): 691,
        (0.01, 0.01): 26_015,
        (0.3, 1e-9): 130,
        (0.9, 0.5): 2,
        (1e-4, 0.05): 181_732_647,
        (0.002, 1e-12): 3_497_858,
    }
    assert {case: capacity_for_ranks(*case) for case in cases} == cases


@pytest.mark.parametrize(
    ("capacity", "doubt", "nested", "kept"),
    [
        (1, 0.05, False, math.inf),
        (2, 0.9, True, 0.7777827155433304),
        (30, 0.05, False, 0.43478266278749444),
        (60, 0.001, True, 0.7789447244709062),
        (125, 0.5, False, 0.09543586729437142),
        (197, 1e-09, True, 0.8540737340100146),
        (197, 1e-09, False, 0.5853788179333301),
        (240, 0.2, False, 0.09607025582754722),
        (250, 0.999, False, 0.04382490429203499),
        (251, 1e-12, False, 0.6063752104231581),
        (400, 0.05, True, 0.14905245922135757),
        (480, 1e-06, True, 0.3645015237409872),
        (500, 0.9, True, 0.047431052612270104),
        (5000, 0.01, False, 0.0371691299469671),
        (20000, 0.3, True, 0.012562841196739965),
        (2**31, 0.05, False, 4.3470833305944256e-05),
    ],
)
def test_kept_errors_do_not_change(capacity, doubt, nested, kept):
    assert kept_relative_error(capacity, 0.0123, doubt, nested) == kept
