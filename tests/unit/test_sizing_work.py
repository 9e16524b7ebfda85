"""The work for hostile arguments is bounded, and skipping work does not change results.

Most of the time goes into tails of Poisson distributions, and into products for those of Gamma
distributions. They are counted, since times depend on the machine. Here 40 000 tails take less
than 30 ms.
"""

import math
from functools import partial

import numpy as np
import pytest

from recency.core import sizing

DOUBTS = [1e-20, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.5, 0.999]
ERRORS = [1e-9, 1e-4, 0.0123, 0.07, 0.3, 0.45, 0.6, 0.71, 0.9, 0.999]
SMALL = [1, 2, 7, 38, 106, 162, 197, 219, 249, 250]
CAPACITIES = [*SMALL, 251, 363, 394, 463, 480, 500, 501, 4097, 20_000, 20_001, 2**31]


class Work:
    """Number of tails and products that were computed, and of calls."""

    def __init__(self):
        self.tails = self.calls = self.products = 0

    def poisson_at_most(self, k, mean, tails=sizing.poisson_at_most):
        self.tails += k.size
        self.calls += 1
        return tails(k, mean)

    def cumprod(self, factors, cumprod=np.cumprod):
        self.products += factors.size
        return cumprod(factors)


@pytest.fixture
def work_of(monkeypatch):
    def work_of(ask):
        work = Work()
        with monkeypatch.context() as patch:
            patch.setattr(sizing, "poisson_at_most", work.poisson_at_most)
            patch.setattr(np, "cumprod", work.cumprod)
            for cached in vars(sizing).values():
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()
            try:
                ask()
            except ValueError as error:
                # too large a sample, or a doubt that 1 − δ/2 rounds away
                assert "must be larger" in str(error) or "range" in str(error)  # noqa: PT017
        return work

    return work_of


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("doubt", DOUBTS)
def test_the_work_of_choosing_a_capacity_is_bounded(work_of, doubt, nested):
    for error in ERRORS:
        work = work_of(partial(sizing.capacity_for_count, error, doubt, nested))
        assert work.tails <= 25_000
        assert work.calls <= 50
        work = work_of(partial(sizing.capacity_for_ranks, error, doubt))
        assert work.tails <= 6_000
        assert work.calls <= 20


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("doubt", DOUBTS)
def test_the_work_of_computing_the_kept_error_is_bounded(work_of, doubt, nested):
    for capacity in CAPACITIES:
        work = work_of(partial(sizing.kept_relative_error, capacity, 0.0123, doubt, nested))
        assert work.tails <= 40_000
        assert work.calls <= 100
        work = work_of(partial(sizing.kept_rank_error, capacity, 0.0123, doubt))
        assert work.tails <= 6_000
        assert work.calls <= 20


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("doubt", [d for d in DOUBTS if d > 1e-15])
def test_the_work_is_bounded_too_next_to_the_capacity_that_would_be_chosen(work_of, doubt, nested):
    for error in (0.07, 0.45, 0.71):
        chosen = sizing.capacity_for_count(error, doubt, nested)
        for capacity in (chosen - 1, chosen, chosen + 1):
            work = work_of(partial(sizing.kept_relative_error, capacity, error, doubt, nested))
            assert work.tails <= 40_000
            assert work.calls <= 100


@pytest.mark.parametrize("doubt", DOUBTS)
def test_the_work_of_intervals_is_bounded(work_of, doubt):
    for n in (0, 1, 40, 1000, 10**5, 974_661, 999_999, 10**6, 10**9, 2**62):
        work = work_of(partial(sizing.weighted_interval, n, n, doubt))
        assert work.products <= 2_000_000
    for total in (1e-300, 1e-100, 1e-9, 0.5, 10.0, 1e5, 9.9e5, 1e9):
        for share in (1e-12, 1e-3, 0.1, 1.0):
            work = work_of(partial(sizing.weighted_interval, total, share * total, doubt))
            assert work.products <= 2_000_000


def all_failures(capacity, error, nested, jumps):
    """Return the sum over levels for every column, without skipping any."""
    alpha = capacity / (1 + nested)
    columns = sizing._columns(alpha)[1:-1]
    if jumps and error < 1 and alpha <= 250:
        columns = np.concatenate([columns, sizing._jumps(alpha, error)])
    means = sizing._means(alpha, columns)
    return sizing._failures(means, sizing._likely(capacity, nested, means), error)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("doubt", [1e-12, 1e-9, 1e-4, 0.05, 0.5, 0.9])
@pytest.mark.parametrize("capacity", [2, 11, 60, 125, 249])
def test_skipped_columns_would_change_nothing(capacity, doubt, nested):
    capacity *= 1 + nested
    kept = sizing.kept_relative_error(capacity, 0.0123, doubt, nested)
    if kept > 1:
        kept = 0.9
    near = [kept * (1 + d) for d in (-0.3, -0.02, -1e-3, -1e-5, 0.0, 1e-5, 1e-3, 0.02, 0.3)]
    errors = [e for e in [*near, 1e-3, 0.999, 1.0] if e <= 1]
    for jumps in (False, True):
        # From below, as they are searched: each leaves out what the ones before it ruled out.
        search, is_alive = sizing._CountSearch(capacity, doubt, nested, jumps), True
        for error in sorted(errors):
            expected = all_failures(capacity, error, nested, jumps).max() <= doubt
            assert sizing._CountSearch(capacity, doubt, nested, jumps).is_kept(error) == expected
            if is_alive:
                assert search.is_kept(error) == expected
            is_alive = is_alive and not expected


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("error", [1e-3, 0.0123, 0.07, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("capacity", [2, 11, 60, 125, 249])
def test_between_columns_failures_stay_below_the_bound(capacity, error, nested):
    capacity *= 1 + nested
    alpha = capacity / (1 + nested)
    search = sizing._CountSearch(capacity, 0.05, nested)
    bounds = search._most_failures(search._gaps, error)
    columns = np.concatenate([sizing._jumps(alpha, error), np.linspace(0.7, 1.4199, 500)])
    means = sizing._means(alpha, columns)
    failures = sizing._failures(means, sizing._likely(capacity, nested, means), error)
    gaps = np.searchsorted(sizing._columns(alpha), columns, side="right") - 1
    assert (failures <= bounds[gaps]).all()
    for larger in (1.001 * error, min(1.05 * error, 0.999)):
        assert (search._most_failures(search._gaps, larger) <= bounds * (1 + 1e-9)).all()


def test_a_capacity_that_was_computed_before_is_cached():
    for error in (0.001, 0.0123, 0.07, 0.3, 0.6, 0.9):
        for doubt in (1e-9, 1e-3, 0.05, 0.5, 0.9):
            for nested in (False, True):
                capacity = sizing.capacity_for_count(error, doubt, nested)
                if capacity <= 2**31:
                    assert sizing.kept_relative_error(capacity, error, doubt, nested) == error
            assert sizing.kept_rank_error(
                sizing.capacity_for_ranks(error, doubt), error, doubt
            ) == (error)
    assert math.isinf(sizing.kept_relative_error(1, 0.3, 1e-12))
