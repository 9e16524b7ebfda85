"""Tails, intervals and capacities against SciPy's distributions."""

import math

import numpy as np
import pytest
from scipy import stats

from recency.core.sizing import (
    capacity_for_count,
    capacity_for_ranks,
    gamma_quantile,
    poisson_at_most,
    weighted_interval,
)

SHAPES = [1.0, 1.0001, 1.5, 2.0, 3.7, 10.0, 99.5, 1e3, 12345.6, 1e5, 9.9e5]
TAILS = [0.5, 0.3, 0.1, 0.025, 1e-3, 1e-6, 1e-9, 1e-12]


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_quantiles(shape, tail):
    assert gamma_quantile(shape, tail, upper=True) == pytest.approx(
        stats.gamma.isf(tail, shape), rel=1e-8
    )
    assert gamma_quantile(shape, tail, upper=False) == pytest.approx(
        stats.gamma.ppf(tail, shape), rel=1e-8
    )


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("shape", [1.1e6, 1e8, 1e12])
def test_gamma_quantiles_of_large_shapes(shape, tail):
    """By the expansion of Cornish and Fisher: SciPy's own lower tails are off there (1.17)."""
    z = stats.norm.isf(tail)
    for sign, upper in ((1, True), (-1, False)):
        terms = [sign * z * math.sqrt(shape), (z * z - 1) / 3]
        terms.append(sign * (z**3 - 7 * z) / 36 / math.sqrt(shape))
        exact = shape + math.fsum(terms)
        assert gamma_quantile(shape, tail, upper) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("mean", [1e-6, 0.01, 0.7, 1.0, 3.3, 40.0, 1000.0, 50_000.0])
def test_poisson_probabilities(mean):
    spread = math.sqrt(mean)
    k = np.unique(np.maximum(np.floor(mean + spread * np.arange(-12, 13)), -1))
    found = poisson_at_most(k, np.full(k.size, mean))
    assert found == pytest.approx(stats.poisson.cdf(k, mean), rel=1e-8, abs=1e-13)


@pytest.mark.parametrize("doubt", [0.5, 0.1, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 40, 1000, 10**5])
def test_poisson_intervals(n, doubt):
    lower, upper = weighted_interval(n, n, doubt)
    assert stats.poisson.cdf(n, upper) == pytest.approx(doubt / 2, rel=1e-6)
    assert upper == pytest.approx(stats.chi2.isf(doubt / 2, 2 * n + 2) / 2, rel=1e-9)
    if n:
        assert stats.poisson.sf(n - 1, lower) == pytest.approx(doubt / 2, rel=1e-6)
        assert lower == pytest.approx(stats.chi2.ppf(doubt / 2, 2 * n) / 2, rel=1e-9)
    else:
        assert lower == 0


@pytest.mark.parametrize("doubt", [0.1, 1e-3, 1e-9])
@pytest.mark.parametrize("parts", [[1.0], [0.5] * 3, [1e-3, 1.0], [0.01] * 500, [1.0, 0.25] * 90])
def test_weighted_intervals_are_fay_and_feuers(parts, doubt):
    total, squares = math.fsum(parts), math.fsum(x * x for x in parts)
    lower, upper = weighted_interval(total, squares, doubt)
    scale = squares / total
    assert lower == pytest.approx(scale * stats.gamma.ppf(doubt / 2, total / scale), rel=1e-9)
    scale = (squares + 1) / (total + 1)
    exact = scale * stats.gamma.isf(doubt / 2, (total + 1) / scale)
    assert upper == pytest.approx(exact, rel=1e-9)
    assert lower <= total <= upper


def failure_of_counts(capacity, error, nested):
    """sup over μ of Σ_ℓ min{P[level ℓ − 1 overflows], P[|Poi(μ_ℓ) − μ_ℓ| > ε μ_ℓ]}.

    With the jumps of the second probability, where it is largest, of the levels next to α.
    """
    alpha = capacity / (1 + nested)
    k = np.arange(1, math.ceil(4.1 * alpha * (1 + error)))
    jumps = np.concatenate([k / (1 - error) * (1 + 1e-10), k / (1 + error) * (1 - 1e-10)])
    jumps = [jumps[(jumps > top / 2) & (jumps <= top)] / top for top in alpha * np.array([1, 2, 4])]
    levels = 2.0 ** np.arange(-3, 7)[:, None]
    means = alpha * np.concatenate([np.geomspace(0.5, 1, 1500), *jumps]) * levels
    overflows = stats.poisson.sf(capacity, (1 + nested) * means)
    low, high = means * (1 - error), means * (1 + error)
    below = stats.poisson.cdf(np.ceil(low * (1 - 1e-12)) - 1, means)  # fewer than (1 − ε) μ
    above = stats.poisson.sf(np.floor(high * (1 + 1e-12)), means)
    return np.minimum(overflows, below + above).sum(axis=0).max()


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("error", "doubt"),
    [(0.5, 1e-4), (0.3, 0.2), (0.2, 0.05), (0.1, 0.01), (0.05, 0.05), (0.7, 1e-6)],
)
def test_capacities_keep_their_guarantee(error, doubt, nested):
    capacity = capacity_for_count(error, doubt, nested)
    # Jumps of the levels next to α are on the grid for samples of up to 250, and no others.
    more = 1.001 if capacity / (1 + nested) <= 250 else 1.05
    assert failure_of_counts(capacity, error, nested) <= doubt * more
    # and are not much larger than it takes
    assert failure_of_counts(capacity * 8 // 10, error, nested) > doubt


@pytest.mark.parametrize(
    ("error", "doubt", "nested", "more"),
    [
        (0.1747140415, 0.006004431934, False, 1.15),
        (0.1745875680, 0.004923453322, True, 1.15),
        (0.1472452131, 0.013078874766, False, 1.12),
        (0.0845696599, 0.181908052384, True, 1.07),
        (0.3240596089, 1.02261632e-12, False, 4.2),
        (0.4011429200, 2.21246944e-12, False, 4.2),
    ],
)
def test_the_largest_errors_of_the_grid(error, doubt, nested, more):
    """They are as the module says, and slightly more capacity would be enough."""
    capacity = capacity_for_count(error, doubt, nested)
    assert 1.05 * doubt < failure_of_counts(capacity, error, nested) <= more * doubt
    larger = math.ceil((1.03 if doubt >= 1e-3 else 1.07) * capacity)
    assert failure_of_counts(larger, error, nested) <= doubt


def failure_of_ranks(capacity, error):
    """The sum over levels of P[overflow] · E[2 exp(−2 n ε²)], n a Poisson number."""
    means = capacity * np.geomspace(0.5, 1, 500) * 2.0 ** np.arange(-3, 7)[:, None]
    misses = np.minimum(1, 2 * np.exp(-means * (1 - math.exp(-2 * error**2))))
    return (stats.poisson.sf(capacity, means) * misses).sum(axis=0).max()


@pytest.mark.parametrize(("error", "doubt"), [(0.3, 0.1), (0.1, 0.05), (0.05, 1e-3), (0.1, 1e-6)])
def test_capacities_for_ranks_keep_their_guarantee(error, doubt):
    capacity = capacity_for_ranks(error, doubt)
    assert failure_of_ranks(capacity, error) <= doubt * 1.001
    assert failure_of_ranks(capacity * 9 // 10, error) > doubt
