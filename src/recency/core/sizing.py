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

The supremum is taken over a grid, which is coarse in places: samples above 250 do without the jumps
of the probability, and further than 5√α below α an octave has 12 points; so an error above ε may be
up to 15 % more likely than δ for δ ≥ 10⁻³, and up to 4.2 times for δ = 10⁻¹², where capacities that
are 3 % or 7 % larger would keep the promise (measured over 5 000 pairs of ε and δ).

Where an element is in every level up to its own, level ℓ − 1 overflows with Poisson(2 μ_ℓ) elements
instead: α is about twice as large.

**Intervals** are those of Poisson counts (Garwood 1936), or of weighted sums of them. They are made
for 0.7 of the failure probability: which level answers depends on the same coins as the answer, and
so intervals fail up to 1.4 times as often (measured over all window sizes; see the accuracy tests).
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import FloatArray, Int64Array

MOST_CAPACITY = 2**31
_LARGE = 20_000
_FEW = 250
_OCTAVES = (-1, 3)  # around α; further down no level overflows, further up no sample misses
_OCTAVE = (0.7, 1.42)  # of α: where μ is looked at, and at its halves and multiples
_SHARE_OF_INTERVALS = 0.7
_LARGE_SHAPE = 1e6
_NEGLIGIBLE = 1e-290
_NEVER = 1e-18
_MARGIN = 1e-6  # of bounds, for rounding errors, which are below 1e-9
_LEAST_Z = 0.674  # that of 1/2: two levels share larger failure probabilities
_LOOKED_UP = 4096
_PRECISION = 1e-5  # of errors that are found by halving
# Gauss's rule with 24 points on [−1, 1], rounded correctly: LAPACK's depends on the machine.
_POSITIVE_NODES = (
    0.06405689286260563,
    0.1911188674736163,
    0.3150426796961634,
    0.4337935076260451,
    0.5454214713888396,
    0.6480936519369755,
    0.7401241915785544,
    0.820001985973903,
    0.8864155270044011,
    0.9382745520027328,
    0.9747285559713095,
    0.9951872199970213,
)
_THEIR_WEIGHTS = (
    0.12793819534675216,
    0.1258374563468283,
    0.12167047292780339,
    0.1155056680537256,
    0.10744427011596563,
    0.09761865210411388,
    0.08619016153195327,
    0.0733464814110803,
    0.05929858491543678,
    0.04427743881741981,
    0.028531388628933663,
    0.0123412297999872,
)
_NODES = np.array([-x for x in reversed(_POSITIVE_NODES)] + list(_POSITIVE_NODES))
_WEIGHTS = np.array(_THEIR_WEIGHTS[::-1] + _THEIR_WEIGHTS)
_lgamma = np.frompyfunc(math.lgamma, 1, 1)


@lru_cache(maxsize=256)
def capacity_for_count(relative_error: float, failure: float, nested: bool = False) -> int:
    """The smallest α for counts and sums; ``nested`` if an element is in all levels up to its own.

    Then α bounds all that a level and those above it hold together, and about twice as many are
    needed.
    """
    z = _count_root(failure)

    def smallest(error: float) -> int:
        guess = (1 + nested) * (z / error) ** 2
        return _smallest(lambda a: _CountSearch(a, failure, nested).is_kept(error), guess)

    return _scaled(smallest, z, relative_error, "relative_error")


def _count_root(failure: float) -> float:
    """About ε √α, for counts."""
    return max(NormalDist().inv_cdf(1 - failure / 2), _LEAST_Z)


@lru_cache(maxsize=256)
def failure_per_copy(failure: float, copies: int) -> float:
    """How often each of several copies may fail, if more than half of them may with ``failure``."""
    ways = [(k, math.comb(copies, k)) for k in range(copies // 2 + 1, copies + 1)]

    def most_fail(each: float) -> float:
        return sum(number * each**k * (1 - each) ** (copies - k) for k, number in ways)

    if copies == 1:
        return failure
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if most_fail(middle) <= failure else (low, middle)
    return low


@lru_cache(maxsize=256)
def capacity_for_ranks(rank_error: float, failure: float) -> int:
    """The smallest α for quantiles, all of them at once."""
    root = _rank_root(failure)

    def smallest(error: float) -> int:
        return _smallest(lambda a: _rank_failure(a, error) <= failure, (root / error) ** 2)

    return _scaled(smallest, root, rank_error, "rank_error")


def _rank_root(failure: float) -> float:
    """About ε √α, for ranks."""
    return math.sqrt(math.log(2 / failure) / 2)


def _reference(root: float, error: float) -> tuple[float, float]:
    """The error that α is computed for, and what to multiply it by.

    Beyond samples of 20 000, α grows as 1/ε² and a little less: the rule is on the safe side.
    """
    reference = max(error, root / math.sqrt(_LARGE))
    return reference, min(reference / error, 1e9) ** 2


def _scaled(smallest: Callable[[float], int], root: float, error: float, name: str) -> int:
    reference, factor = _reference(root, error)
    capacity = smallest(reference) * factor
    if capacity > MOST_CAPACITY:
        raise ValueError(
            f"{name} must be larger, got {error}: a sample would need {capacity:.1g} elements per "
            f"level; at most {MOST_CAPACITY} are possible"
        )
    return math.ceil(capacity)


def _is_chosen(
    capacity: int,
    root: float,
    error: float,
    is_kept: Callable[[int, float], bool],
    choose: Callable[[], int],
) -> bool:
    """Whether this is the capacity that ``choose`` finds for the error.

    It is only if this keeps the error, and one less does not: two tries, which mostly make the
    search itself unnecessary.
    """
    reference, factor = _reference(root, error)
    near = int(capacity / factor)
    can_be = any(
        math.ceil(a * factor) == capacity
        and is_kept(a, reference)
        and (a == 2 or not is_kept(a - 1, reference))
        for a in range(max(near - 1, 2), near + 2)
    )
    try:
        return can_be and capacity == choose()
    except ValueError:
        return False


@lru_cache(maxsize=256)
def kept_relative_error(
    capacity: int, relative_error: float, failure: float, nested: bool = False
) -> float:
    """The error kept but for this failure probability.

    It is the one asked for, unless another capacity was chosen. Infinite if not even an error of 1
    is kept.
    """

    def is_kept(a: int, error: float) -> bool:
        return _CountSearch(a, failure, nested).is_kept(error)

    choose = partial(capacity_for_count, relative_error, failure, nested)
    if _is_chosen(capacity, _count_root(failure), relative_error, is_kept, choose):
        return relative_error
    reference = min(capacity, _LARGE)
    # Without the jumps it is quick, and an error that is a little too small.
    low = _smallest_error(_CountSearch(reference, failure, nested, jumps=False).is_kept)
    search = _CountSearch(reference, failure, nested)
    search.leave_out(low * (1 - _PRECISION))
    kept = _smallest_error(search.is_kept, low * (1 - _PRECISION))
    return kept * math.sqrt(reference / capacity)


@lru_cache(maxsize=256)
def kept_rank_error(capacity: int, rank_error: float, failure: float) -> float:
    """The same for ranks, of which none is off by more than 1."""

    def is_kept(a: int, error: float) -> bool:
        return _rank_failure(a, error) <= failure

    choose = partial(capacity_for_ranks, rank_error, failure)
    if _is_chosen(capacity, _rank_root(failure), rank_error, is_kept, choose):
        return rank_error
    reference = min(capacity, _LARGE)
    keeps = partial(is_kept, reference)
    kept = _smallest_error(keeps, _smallest_error(keeps) * (1 - _PRECISION))
    return min(kept * math.sqrt(reference / capacity), 1.0)


def sum_interval(total: float, squares: float, confidence: float) -> tuple[float, float]:
    """Bounds on the mean of a sum of contributions, for use where the level depends on the data.

    See :func:`weighted_interval`.
    """
    return weighted_interval(total, squares, _SHARE_OF_INTERVALS * (1 - confidence))


def sum_intervals(counts: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """:func:`sum_interval` of many counts, each of equal contributions; few of them differ."""
    if counts.size == 1:
        bounds = sum_interval(float(counts[0]), float(counts[0]), confidence)
        return np.array(bounds[:1]), np.array(bounds[1:])
    different, which = np.unique(counts, return_inverse=True)
    intervals = [sum_interval(count, count, confidence) for count in different.tolist()]
    lower, upper = np.array(intervals).reshape(-1, 2)[which].T
    return lower, upper


def rank_margins(n: FloatArray, confidence: float) -> FloatArray:
    """How far any rank among n sampled elements may be off, for the same use."""
    failure = _SHARE_OF_INTERVALS * (1 - confidence)
    return np.minimum(1.0, np.sqrt(math.log(2 / failure) / (2 * n)))


def least_means(
    totals: FloatArray, squares: FloatArray, confidence: float, bounds: int
) -> FloatArray:
    """Return lower ends of :func:`sum_interval` of many sums; ``bounds`` of them hold at once.

    By the formula of Wilson & Hilferty, which is below the quantile of a Gamma distribution if
    the failure probability is at most 0.07, and otherwise at most 1 % of a standard deviation
    above it.
    """
    z = NormalDist().inv_cdf(_SHARE_OF_INTERVALS * (1 - confidence) / (2 * bounds))
    shapes = totals**2 / np.maximum(squares, _NEGLIGIBLE)
    shapes_from_1 = np.maximum(shapes, 1.0)
    root = 1 - 1 / (9 * shapes_from_1) + z / (3 * np.sqrt(shapes_from_1))
    least: FloatArray = np.where(shapes < 1, 0.0, totals * np.maximum(root, 0.0) ** 3)
    return least


def weighted_interval(total: float, squares: float, failure: float) -> tuple[float, float]:
    """Bounds on the mean of Σ aᵢ·Poissonᵢ, 0 < aᵢ ≤ 1, where Σ aᵢ and Σ aᵢ² were observed.

    Gamma distributions with the observed mean and variance; above, one event more is reckoned with,
    as heavy as can be (Fay & Feuer 1997). For aᵢ = 1 those are the exact intervals of Poisson
    counts (Garwood 1936).
    """
    above = (total + 1) ** 2 / (squares + 1)
    upper = (squares + 1) / (total + 1) * gamma_quantile(above, failure / 2, upper=True)
    if squares < _NEGLIGIBLE:
        return 0.0, upper
    lower = gamma_quantile(total * total / squares, failure / 2, upper=False)
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
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        far = _where_negligible(k, mean, below)
        step = 0.5 * far * (_NODES[:, None] + 1)
        fallen = np.log1p(step / mean)
        fallen *= k
        fallen -= step
        np.exp(fallen, out=fallen)
        fallen *= _WEIGHTS[:, None]
        log_first = k * np.log(mean) - mean - _log_factorials(k)
        tail = np.exp(log_first) * 0.5 * np.abs(far) * _sum_of_rows(fallen)
    probability = np.minimum(np.maximum(np.where(below, tail, 1 - tail), 0.0), 1.0)
    return np.where(none, 0.0, probability)


def _sum_of_rows(rows: FloatArray) -> FloatArray:
    """The sum of 24 rows, in the same order whatever their length is."""
    twelve = rows[:12] + rows[12:]
    six = twelve[:6] + twelve[6:]
    three = six[:3] + six[3:]
    total: FloatArray = three[0] + three[1] + three[2]
    return total


def _where_negligible(k: FloatArray, mean: FloatArray, below: NDArray[np.bool_]) -> FloatArray:
    """How far above the mean, if k is below it, tᵏe⁻ᵗ is e⁻⁴⁰ of what it is there.

    If k is not below it, how far below the mean, as a negative number; the whole way to 0, if it is
    not so little anywhere. Newton's method on a convex function, from beyond: with
    S = √(2·40·max(k, m)) + 40 it is at least 40 there.
    """
    furthest = np.sqrt(80 * np.maximum(k, mean)) + 40
    far = np.where(below, furthest, -np.minimum(furthest, mean * (1 - 1e-12)))
    for _ in range(5):
        rest = far - k * np.log1p(far / mean) - 40
        far = np.where(rest > 0, far - rest / (1 - k / (mean + far)), far)
    return np.where(~below & (far <= mean * (-1 + 2e-12)), -mean, far)


def _log_factorials(k: FloatArray) -> FloatArray:
    """Logarithms of k!; looked up for small whole numbers, for these are many."""
    if k.size and k.max() < _LOOKED_UP:
        index = k.astype(np.int64)
        if (index == k).all():
            return _small_log_factorials()[index]
    return np.asarray(_lgamma(k + 1), dtype=np.float64)


@lru_cache(maxsize=1)
def _small_log_factorials() -> FloatArray:
    return np.asarray(_lgamma(np.arange(1.0, _LOOKED_UP + 1)), dtype=np.float64)


def _columns(capacity: float) -> FloatArray:
    """Where in an octave around α, as a fraction of α, μ is looked at: ends included.

    The sum peaks where overflowing becomes likely, within a few √α below α: there the grid is fine.
    """
    near = 1 + np.arange(-5, 2, 0.125) / math.sqrt(capacity)
    columns = np.unique(np.concatenate([np.geomspace(2**-0.5, 2**0.5, 13), near]))
    low, high = _OCTAVE
    return np.concatenate([[low], columns[(columns > low) & (columns < high)], [high]])


def _jumps(capacity: float, error: float) -> FloatArray:
    """Columns where the probability of an error jumps, as integers enter and leave the interval.

    All jumps of the two levels that matter.
    """
    k = np.arange(1, math.ceil(6 * capacity))
    jumps = np.concatenate([k / (1 - error) * (1 + 1e-12), k / (1 + error) * (1 - 1e-12)])
    columns = np.concatenate([jumps / capacity, jumps / (2 * capacity)])
    low, high = _OCTAVE
    return columns[(columns > low) & (columns < high)]


def _means(capacity: float, columns: FloatArray) -> FloatArray:
    """The means μ_ℓ, with a row for each level."""
    return capacity * columns * 2.0 ** np.arange(*_OCTAVES)[:, None]


def _likely(capacity: int, nested: bool, means: FloatArray) -> FloatArray:
    """How likely each level overflows."""
    overflown = np.full(means.size, float(capacity))
    likely = 1 - poisson_at_most(overflown, (1 + nested) * means.ravel())
    return likely.reshape(means.shape)


@lru_cache(maxsize=64)
def _overflows(capacity: int, nested: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Columns of the grid, their means, and how likely their levels overflow."""
    columns = _columns(capacity / (1 + nested))
    means = _means(capacity / (1 + nested), columns)
    return columns, means, _likely(capacity, nested, means)


def _failures(means: FloatArray, likely: FloatArray, error: float) -> FloatArray:
    """The failure probability of each column: the sum over its levels."""
    failure = np.zeros_like(means)
    matters = likely > _NEVER
    mean = means[matters]
    # An error of exactly ε counts as a miss here.
    misses = _outside(np.floor(mean * (1 - error)), np.ceil(mean * (1 + error)) - 1, mean)
    failure[matters] = np.minimum(likely[matters], misses)
    total: FloatArray = failure.sum(axis=0)
    return total


def _outside(low: FloatArray, high: FloatArray, mean: FloatArray) -> FloatArray:
    """P[Poi(mean) ≤ low] + P[Poi(mean) > high]."""
    both = poisson_at_most(np.concatenate([low, high]), np.concatenate([mean, mean]))
    return both[: low.size] + (1 - both[low.size :])


class _CountSearch:
    """Whether samples of one capacity keep errors, but for one failure probability.

    After an error that is not kept, only larger ones may be asked about: columns that it is kept in
    are not looked at again. The same can be said beforehand of errors above a given one.

    In small samples the probability of a miss is largest at its jumps, of which there are hundreds.
    Most of them need not be looked at. Anywhere between two columns of the grid, a level overflows
    at most as often as at the upper one, and misses at most as often as
    P[Poi(m) ≤ (1 − ε) m] + P[Poi(m) > (1 + ε) m − 1] at the lower one, where the probabilities are
    continued to real numbers (as incomplete gamma functions): both fall as m or ε grows. Gaps
    between columns where this bound is within the failure probability are left out.
    """

    def __init__(self, capacity: int, failure: float, nested: bool, jumps: bool = True) -> None:
        self._capacity, self._failure, self._nested = capacity, failure, nested
        self._columns, self._means, self._likely = _overflows(capacity, nested)
        self._points = np.arange(1, self._columns.size - 1)
        has_jumps = jumps and capacity / (1 + nested) <= _FEW
        self._gaps = np.arange(self._columns.size - 1 if has_jumps else 0)

    def is_kept(self, error: float) -> bool:
        """Whether errors above this one are as rare as the failure probability asks for."""
        points = self._points
        if points.size:
            failures = _failures(self._means[:, points], self._likely[:, points], error)
            exceeding = failures > self._failure
            if exceeding.any():
                self._points = points[exceeding]
                return False
        if not self._gaps.size or error >= 1:
            return True
        gaps = self._gaps[self._most_failures(self._gaps, error) > self._failure]
        if not gaps.size:
            return True
        columns = _jumps(self._capacity / (1 + self._nested), error)
        is_open = np.zeros(self._columns.size, dtype=np.bool_)
        is_open[gaps] = True
        columns = columns[is_open[np.searchsorted(self._columns, columns, side="right") - 1]]
        means = _means(self._capacity / (1 + self._nested), columns)
        failures = _failures(means, _likely(self._capacity, self._nested, means), error)
        if not (failures > self._failure).any():
            return True
        self._points, self._gaps = np.arange(0), gaps
        return False

    def leave_out(self, error: float) -> None:
        """Leave out what cannot fail for errors above this one: no others will be asked about."""
        if error < 1:
            means, likely = self._means[:, self._points], self._likely[:, self._points]
            self._points = self._points[_failures(means, likely, error) > self._failure]
            self._gaps = self._gaps[self._most_failures(self._gaps, error) > self._failure]

    def _most_failures(self, gaps: Int64Array, error: float) -> FloatArray:
        """Upper bounds on the failure probability anywhere in these gaps."""
        mean, likely = self._means[:, gaps].ravel(), self._likely[:, gaps + 1]
        misses = _outside(mean * (1 - error), mean * (1 + error) - 1, mean)
        failure = np.minimum(likely, misses.reshape(likely.shape))
        most: FloatArray = (1 + _MARGIN) * failure.sum(axis=0)
        return most


def _rank_failure(capacity: int, error: float) -> float:
    _, means, likely = _overflows(capacity, False)
    misses = np.minimum(1, 2 * np.exp(means * math.expm1(-2 * error**2)))
    return float((likely * misses)[:, 1:-1].sum(axis=0).max())


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
