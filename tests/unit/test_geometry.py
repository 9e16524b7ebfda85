"""The closed forms against numeric optima of the memory that they minimise."""

import math

import numpy as np
import pytest

from recency.core.geometry import choose, counters_of_an_answer, split, total_error
from recency.core.sizing import capacity_for_count

ERRORS = [0.01, 0.05, 0.1, 0.25, 0.5]


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_the_split_needs_the_least_memory(error, sampled, product):
    power = 2 if product else 1
    u = np.linspace(1, (1 + error) ** (1 / power), 200_001)[1:-1]
    memory = 1 / ((u - 1) ** (2 if sampled else 1) * ((1 + error) / u**power - 1))
    best = u[memory.argmin()] - 1
    cell_error, width = split(error, sampled, product)
    assert cell_error == pytest.approx(best, rel=1e-3)
    assert total_error(cell_error, width, product) <= error * (1 + 1e-12)
    assert total_error(cell_error, width - 1, product) > error


def test_the_paper_s_own_formulas():
    """Papapetrou et al. 2012, §4.1 and §4.2.2."""
    for error in ERRORS:
        assert split(error, False, False)[0] == pytest.approx(math.sqrt(error + 1) - 1)
        root = math.sqrt(error**2 + 10 * error + 9)
        assert split(error, True, False)[0] == pytest.approx((root + error - 3) / 4)


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_the_failure_probability_of_samples_is_split_for_the_least_memory(confidence, product):
    chosen = choose(0.1, confidence, True, product)
    failure = 1 - confidence

    def memory(rows):
        share = (failure - math.exp(-rows)) / counters_of_an_answer(chosen.width, rows, product)
        return rows * capacity_for_count(chosen.cell_error, share)

    fewest = math.floor(math.log(1 / failure)) + 1
    # Depths are compared by z², which capacities follow within a few per cent.
    assert chosen.depth * chosen.capacity <= 1.03 * min(memory(rows) for rows in range(fewest, 12))


@pytest.mark.parametrize(("confidence", "depth"), [(0.5, 1), (0.9, 3), (0.95, 3), (0.99, 5)])
def test_depth_of_deterministic_counters(confidence, depth):
    assert choose(0.05, confidence, False, False).depth == depth
    assert math.exp(-depth) <= 1 - confidence


def test_errors_too_small_for_floating_point_are_refused():
    for sampled in (False, True):
        for product in (False, True):
            with pytest.raises(ValueError, match="relative_error must be larger, got 1e-17"):
                split(1e-17, sampled, product)
