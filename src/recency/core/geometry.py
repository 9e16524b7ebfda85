"""How large the parts of an ECM-sketch are: error and failure probability, at least memory.

A cell of a row holds the count of an item and that of others which hash there. With width w, the
others are at most (e/w)·total with probability 1 − 1/e (Markov), in the best of d rows with
probability 1 − e⁻ᵈ: ε_cm = e/w, δ_cm = e⁻ᵈ. A window counter adds ε_sw of what the cell holds.
Together (Papapetrou et al. 2012, Theorems 1–3)

    point query      1 + ε = (1 + ε_sw) (1 + ε_cm)
    inner product    1 + ε = (1 + ε_sw)² (1 + ε_cm)

Memory is in proportion to 1/(ε_sw ε_cm) for exponential histograms and deterministic waves, and to
1/(ε_sw² ε_cm) for samples. With u = 1 + ε_sw and ε_cm from the lines above, the products are
largest, as setting their derivatives to zero shows, where

    point, deterministic           u² = 1 + ε
    inner product, deterministic   u³ + (1 + ε) u = 2 (1 + ε)
    point, sampled                 2 u² = (1 + ε) (u + 1)
    inner product, sampled         u³ = 1 + ε
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from recency.core.sizing import capacity_for_count


@dataclass(frozen=True)
class Geometry:
    """Rows and columns of cells, and what each cell is asked to keep."""

    width: int
    depth: int
    cell_error: float
    capacity: int | None  # of a cell that is a sample


def choose(relative_error: float, confidence: float, sampled: bool, product: bool) -> Geometry:
    """The geometry that keeps the error at the confidence, with the least memory."""
    cell_error, width = split(relative_error, sampled, product)
    failure = 1 - confidence
    depth = max(1, math.ceil(math.log(1 / failure)))
    if not sampled:
        return Geometry(width, depth, cell_error, None)
    # Fewer rows leave less of it to the samples, which then must be larger, in proportion to z².
    shares = {
        rows: (failure - math.exp(-rows)) / counters_of_an_answer(width, rows, product)
        for rows in range(depth, depth + 8)
        if failure > math.exp(-rows)
    }
    depth = min(shares, key=lambda rows: rows * NormalDist().inv_cdf(shares[rows] / 2) ** 2)
    return Geometry(width, depth, cell_error, capacity_for_count(cell_error, shares[depth]))


def left_to_counters(failure: float, rows: int) -> float:
    """What hash functions leave of a failure probability to samples; half, if they leave none."""
    in_rows = math.exp(-rows)
    return failure - in_rows if failure > in_rows else failure / 2


def counters_of_an_answer(width: int, depth: int, product: bool) -> int:
    """How many samples must all be right: those that a question looks at, and the total."""
    return (width if product else 1) * depth + 1


def split(relative_error: float, sampled: bool, product: bool) -> tuple[float, int]:
    """ε_sw, and the width that the rest of the error allows."""
    whole = 1 + relative_error
    if sampled:
        u = whole ** (1 / 3) if product else (whole + math.sqrt(whole * (whole + 8))) / 4
    elif product:
        u = _root(lambda x: x**3 + whole * x - 2 * whole, 1.0, whole)
    else:
        u = math.sqrt(whole)
    rest = whole / u ** (2 if product else 1) - 1
    if not (u > 1 and rest > 1e-12):
        raise ValueError(f"relative_error must be larger, got {relative_error}")
    return u - 1, math.ceil(math.e / rest)


def total_error(cell_error: float, width: int, product: bool) -> float:
    """ε, put together from the errors of cells and of hashing."""
    return (1 + cell_error) ** (2 if product else 1) * (1 + math.e / width) - 1


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function is zero, found by halving."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if f(middle) > 0 else (middle, high)
    return (low + high) / 2
