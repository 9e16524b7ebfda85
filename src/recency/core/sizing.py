"""How large samples must be, and how wide intervals: computed, not bounded by hand.

In a window with μ expected elements (or total weight, in units of the smallest that matters), let
μ_ℓ = μ/2ˡ. A level sample answers from level ℓ only if level ℓ − 1 overflowed, and the number of
elements there is at most Poisson(μ_ℓ) in the window; the sample at the levels from ℓ on is, in
number, Poisson(μ_ℓ) as well. So with capacity α the probability of an error above ε is at most

    sup over μ of  Σ_ℓ min{ P[Poi(μ_ℓ) > α],  P[|Poi(μ_ℓ) − μ_ℓ| > ε μ_ℓ] }.

The smallest α that makes this ≤ δ is used. It is about z²/ε² (z the normal quantile) plus a tenth;
the constants of the papers, chosen for short proofs, are 10 to 30 times larger. Unequal weights
only help: large ones are counted exactly, sums of unequal coins are more concentrated than Poisson.

For quantiles the sample of n elements has all its ranks within ε at once except with probability
2 exp(−2 n ε²) (Dvoretzky, Kiefer & Wolfowitz; Massart 1990). With n Poisson(μ_ℓ), independent of
the overflow below, the sum is over P[Poi(μ_ℓ) > α] · min{1, 2 exp(−μ_ℓ (1 − exp(−2ε²)))}.

Where an element is in every level up to its own, level ℓ − 1 overflows with Poisson(2 μ_ℓ) elements
instead: α is about twice as large.

**Intervals** are those of Poisson counts (Garwood 1936), or of weighted sums of them. They are made
for 0.7 of the doubt: which level answers depends on the same coins as the answer, and that costs up
to 1.4 times the doubt (measured over all window sizes; see the accuracy tests).
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MOST_CAPACITY = 2**31
_LARGE = 20_000
_FEW = 250
_OCTAVES = (-1, 3)  # around α; further down no level overflows, further up no sample misses
_DOUBT_SHARE = 0.7
_LARGE_SHAPE = 1e6
_NEGLIGIBLE = 1e-290
_NEVER = 1e-18
_LEAST_Z = 0.674  # where doubts exceed a half, two levels share them: neither has less than this
_LOOKED_UP = 4096
_PRECISION = 1e-5  # of errors that are found by halving
_lgamma = np.frompyfunc(math.lgamma, 1, 1)


@lru_cache(maxsize=256)
def capacity_for_count(relative_error: float, doubt: float, nested: bool = False) -> int:
    """The smallest α for counts and sums; ``nested`` if an element is in all levels up to its own.

    Then α bounds all that a level and those above it hold together, and about twice as many are
    needed.
    """
    z = max(NormalDist().inv_cdf(1 - doubt / 2), _LEAST_Z)

    def smallest(error: float) -> int:
        guess = (1 + nested) * (z / error) ** 2
        return _smallest(lambda a: _count_failure(a, error, nested) <= doubt, guess)

    return _scaled(smallest, z, relative_error, "relative_error")


@lru_cache(maxsize=256)
def doubt_per_copy(doubt: float, copies: int) -> float:
    """How often one of several copies may fail, if more than half may with this doubt."""

    def most_fail(each: float) -> float:
        return sum(
            math.comb(copies, k) * each**k * (1 - each) ** (copies - k)
            for k in range(copies // 2 + 1, copies + 1)
        )

    if copies == 1:
        return doubt
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if most_fail(middle) <= doubt else (low, middle)
    return low


@lru_cache(maxsize=256)
def capacity_for_ranks(rank_error: float, doubt: float) -> int:
    """The smallest α for quantiles, all of them at once."""
    root = math.sqrt(math.log(2 / doubt) / 2)

    def smallest(error: float) -> int:
        return _smallest(lambda a: _rank_failure(a, error) <= doubt, (root / error) ** 2)

    return _scaled(smallest, root, rank_error, "rank_error")


def _scaled(smallest: Callable[[float], int], root: float, error: float, name: str) -> int:
    """Beyond samples of 20 000, α grows as 1/ε² and a little less: the rule is on the safe side."""
    reference = max(error, root / math.sqrt(_LARGE))
    capacity = smallest(reference) * min(reference / error, 1e9) ** 2
    if capacity > MOST_CAPACITY:
        raise ValueError(
            f"{name} must be larger, got {error}: a sample would need {capacity:.1g} elements per "
            f"level; at most {MOST_CAPACITY} are possible"
        )
    return math.ceil(capacity)


@lru_cache(maxsize=256)
def kept_relative_error(
    capacity: int, relative_error: float, doubt: float, nested: bool = False
) -> float:
    """The error kept with this doubt: the one asked for, unless another capacity was chosen.

    Infinite if not even an error of 1 is kept.
    """
    return _kept(
        capacity,
        relative_error,
        doubt,
        lambda error, doubt: capacity_for_count(error, doubt, nested),
        lambda capacity, error, jumps: _count_failure(capacity, error, nested, jumps),
    )


@lru_cache(maxsize=256)
def kept_rank_error(capacity: int, rank_error: float, doubt: float) -> float:
    """The same for ranks, of which none is off by more than 1."""

    def failure(capacity: int, error: float, jumps: bool) -> float:
        return _rank_failure(capacity, error)

    return min(_kept(capacity, rank_error, doubt, capacity_for_ranks, failure), 1.0)


def _kept(
    capacity: int,
    error: float,
    doubt: float,
    capacity_for: Callable[[float, float], int],
    failure: Callable[[int, float, bool], float],
) -> float:
    with suppress(ValueError):
        if capacity == capacity_for(error, doubt):
            return error
    reference = min(capacity, _LARGE)
    # Without the jumps it is quick, and an error that is a little too small.
    low = _smallest_error(lambda e: failure(reference, e, False) <= doubt)
    kept = _smallest_error(lambda e: failure(reference, e, True) <= doubt, low * (1 - _PRECISION))
    return kept * math.sqrt(reference / capacity)


def count_interval(n: int, confidence: float) -> tuple[float, float]:
    """Bounds on the mean of the Poisson count n, for use where the level depends on the data."""
    return poisson_interval(n, _DOUBT_SHARE * (1 - confidence))


def sum_interval(total: float, squares: float, confidence: float) -> tuple[float, float]:
    """The same for sums of unequal contributions; see :func:`weighted_interval`."""
    return weighted_interval(total, squares, _DOUBT_SHARE * (1 - confidence))


def rank_margin(n: float, confidence: float) -> float:
    """How far any rank among n sampled elements may be off, for the same use."""
    return min(1.0, math.sqrt(math.log(2 / (_DOUBT_SHARE * (1 - confidence))) / (2 * n)))


def poisson_interval(n: int, doubt: float) -> tuple[float, float]:
    """Means for which n or more, and n or fewer, have probability ``doubt``/2 each."""
    return weighted_interval(float(n), float(n), doubt)


def weighted_interval(total: float, squares: float, doubt: float) -> tuple[float, float]:
    """Bounds on the mean of Σ aᵢ·Poissonᵢ, 0 < aᵢ ≤ 1, where Σ aᵢ and Σ aᵢ² were observed.

    Gamma distributions with the observed mean and variance; above, one event more is reckoned with,
    as heavy as can be (Fay & Feuer 1997). For aᵢ = 1 those are the exact intervals of Poisson
    counts (Garwood 1936).
    """
    above = (total + 1) ** 2 / (squares + 1)
    upper = (squares + 1) / (total + 1) * gamma_quantile(above, doubt / 2, upper=True)
    if squares < _NEGLIGIBLE:
        return 0.0, upper
    lower = gamma_quantile(total * total / squares, doubt / 2, upper=False)
    return squares / total * lower, upper


@lru_cache(maxsize=4096)
def gamma_quantile(shape: float, tail: float, upper: bool) -> float:
    """Where a Gamma(shape ≥ 1) variable leaves this probability above, or below.

    Newton's method on the logarithm of the tail, which is concave, from a good guess.
    """
    z = NormalDist().inv_cdf(tail) * (-1 if upper else 1)
    x = max(shape * (1 - 1 / (9 * shape) + z / (3 * math.sqrt(shape))) ** 3, 1e-3 * shape)
    if shape > _LARGE_SHAPE:
        return x  # Wilson & Hilferty 1931, whose error falls with the shape
    for _ in range(60):
        # Tails are multiples of the density, which cancels.
        size, slope = (_above(shape, x), -1.0) if upper else (_below(shape, x), 1.0)
        log_density = (shape - 1) * math.log(x) - x - math.lgamma(shape)
        step = (log_density + math.log(size) - math.log(tail)) * slope * size
        x = min(max(x - step, x / 4), 4 * x)
        if abs(step) <= 1e-12 * x:
            break
    return x


def _below(shape: float, x: float) -> float:
    """P[Gamma(shape) ≤ x] over the density at x: x/a + x²/(a(a + 1)) + …, all positive."""
    terms = int(64 + max(0.0, x - shape) + 12 * math.sqrt(x))
    return float(np.cumprod(x / (shape + np.arange(terms))).sum())


def _above(shape: float, x: float) -> float:
    """P[Gamma(shape) > x] over the density at x: 1 + (a − 1)/x + (a − 1)(a − 2)/x² + …

    The sum goes on while factors are positive; what is left then, the same ratio for a shape in
    [0, 1), is a continued fraction.
    """
    if x < shape:  # terms would grow
        log_density = (shape - 1) * math.log(x) - x - math.lgamma(shape)
        return math.exp(-log_density) - _below(shape, x)
    whole = math.ceil(shape) - 1
    terms = min(whole, int(64 + 12 * math.sqrt(x)))
    products = np.cumprod((shape - 1 - np.arange(terms)) / x) if terms else np.empty(0)
    total = 1 + float(products[:-1].sum())
    if not terms:
        return _rest(shape, x)
    return total + float(products[-1]) * (_rest(shape - whole, x) if terms == whole else 1.0)


def _rest(shape: float, x: float) -> float:
    """The same for shapes in (0, 1]: x/(x + (1 − a)/(1 + 1/(x + (2 − a)/(1 + 2/(x + …)))))."""
    fraction = x
    for n in range(60, 0, -1):
        fraction = x + (n - shape) / (1 + n / fraction)
    return x / fraction


def poisson_at_most(k: FloatArray, mean: FloatArray) -> FloatArray:
    """P[Poi(mean) ≤ k], from whichever tail k is in, so that small ones have all their digits.

    P[Poi(m) ≤ k] is the integral of tᵏe⁻ᵗ/k! from m on, and P[Poi(m) > k] the one up to m. Away
    from m the integrand falls from its value there, as fast as a normal density or faster: where it
    is e⁻⁴⁰ of that the interval ends, and Gauss's rule has many more points than it needs.
    """
    below, none = k < mean, k < 0
    k = np.maximum(k, 0)
    side = np.where(below, 1.0, -1.0)
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        end = _where_negligible(k, mean, side)
        nodes, weights = _gauss()
        step = 0.5 * end * (nodes[:, None] + 1)
        fallen = np.exp(k * np.log1p(side * step / mean) - side * step)
        log_first = k * np.log(mean) - mean - _log_factorials(k)
        tail: FloatArray = np.exp(log_first) * 0.5 * end * (weights[:, None] * fallen).sum(axis=0)
    return np.where(none, 0.0, np.clip(np.where(below, tail, 1 - tail), 0.0, 1.0))


def _where_negligible(k: FloatArray, mean: FloatArray, side: FloatArray) -> FloatArray:
    """How far from the mean tᵏe⁻ᵗ is e⁻⁴⁰ of what it is there; the whole way to 0, if it is not.

    Newton's method on a convex function, from beyond: with S = √(2·40·max(k, m)) + 40 it is at
    least 40 there.
    """
    far = np.sqrt(80 * np.maximum(k, mean)) + 40
    end = np.where(side > 0, far, np.minimum(far, mean * (1 - 1e-12)))
    for _ in range(5):
        rest = side * end - k * np.log1p(side * end / mean) - 40
        slope = side * (1 - k / (mean + side * end))
        end = np.where(rest > 0, end - rest / np.maximum(slope, 1e-300), end)
    return np.where((side < 0) & (end >= mean * (1 - 2e-12)), mean, end)


def _log_factorials(k: FloatArray) -> FloatArray:
    """Logarithms of k! for whole numbers; looked up where they are small, for these are many."""
    if k.size and k.max() < _LOOKED_UP:
        return _small_log_factorials()[k.astype(np.int64)]
    return np.asarray(_lgamma(k + 1), dtype=np.float64)


@lru_cache(maxsize=1)
def _small_log_factorials() -> FloatArray:
    return np.asarray(_lgamma(np.arange(1.0, _LOOKED_UP + 1)), dtype=np.float64)


@lru_cache(maxsize=1)
def _gauss() -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(24)


def _means(capacity: float, error: float | None = None) -> FloatArray:
    """μ_ℓ on a grid: rows are levels, columns the position of μ within an octave around α.

    The sum peaks where overflowing becomes likely, within a few √α below α: there the grid is fine.
    In small samples the probability of an error above ``error`` jumps as integers enter and leave
    the interval, and is largest at a jump: all jumps of the two levels that matter are on the grid.
    """
    near = 1 + np.arange(-5, 2, 0.125) / math.sqrt(capacity)
    octave = [np.geomspace(2**-0.5, 2**0.5, 13), near]
    if error is not None:
        k = np.arange(1, math.ceil(6 * capacity))
        jumps = np.concatenate([k / (1 - error) * (1 + 1e-12), k / (1 + error) * (1 - 1e-12)])
        octave += [jumps / capacity, jumps / (2 * capacity)]
    columns = np.unique(np.concatenate(octave))
    columns = columns[(columns > 0.7) & (columns < 1.42)]
    return capacity * columns * 2.0 ** np.arange(*_OCTAVES)[:, None]


@lru_cache(maxsize=64)
def _overflows(capacity: int, nested: bool, few_for: float | None) -> tuple[FloatArray, FloatArray]:
    """Means on the grid, and how likely their levels overflow."""
    means = _means(capacity / (1 + nested), few_for)
    likely = 1 - poisson_at_most(np.full(means.size, float(capacity)), (1 + nested) * means.ravel())
    return means, likely.reshape(means.shape)


def _count_failure(capacity: int, error: float, nested: bool = False, jumps: bool = True) -> float:
    is_small = jumps and error < 1 and capacity / (1 + nested) <= _FEW
    means, likely = _overflows(capacity, nested, error if is_small else None)
    failure = np.zeros_like(means)
    matters = likely > _NEVER
    mean = means[matters]
    # An error of exactly ε counts as a miss here.
    misses = poisson_at_most(np.floor(mean * (1 - error)), mean) + (
        1 - poisson_at_most(np.ceil(mean * (1 + error)) - 1, mean)
    )
    failure[matters] = np.minimum(likely[matters], misses)
    return float(failure.sum(axis=0).max())


def _rank_failure(capacity: int, error: float) -> float:
    means, likely = _overflows(capacity, False, None)
    misses = np.minimum(1, 2 * np.exp(means * math.expm1(-2 * error**2)))
    return float((likely * misses).sum(axis=0).max())


def _smallest(enough: Callable[[int], bool], guess: float) -> int:
    """The smallest integer that is enough; whatever is larger is enough too, nearly."""
    low, high = 1, max(2, math.ceil(guess))
    while not enough(high):
        low, high = high, math.ceil(1.2 * high)
    if low == 1 and not enough(3 * high // 4):
        low = 3 * high // 4
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _smallest_error(enough: Callable[[float], bool], low: float = 0.0) -> float:
    """The smallest error that is enough, up to 1, from ``low`` on; infinite if none is."""
    step = max(low / 64, _PRECISION)
    high = min(low + step, 1.0) if low else 1.0
    while not enough(high):
        if high >= 1:
            return math.inf  # nothing is promised
        low, step = high, 4 * step
        high = min(high + step, 1.0)
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
