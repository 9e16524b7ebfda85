"""How much more a sampled count varies than a Poisson number, told by the sample itself.

Elements that share a coin are sampled together or not at all: a count of them varies more than one
of independent elements, and an interval made for those would miss. Coins are shared by events that
are repeated with their id, or by sketches that were built side by side with one stream number. Such
elements have equal times and values: they are of one *class*; classes are independent.

**Estimate.** An element of the sample from level j on is at level j itself with probability 1/2,
and above it otherwise. So in each class the count x at level j and the count y above it have the
same distribution, and E (x − y)² = D · E (x + y), where D is the variance over the mean: 1 for
independent elements, m where every coin is shared by m. Summed over classes and divided, that is
an unbiased D at each level. Elements without a twin say 1, whatever D is elsewhere.

The levels are averaged by how many classes, of equal size, say as much as those there are: this
varies least where all coins are shared alike. It is too small where a few classes hold most of
what is shared, for only the levels that they are sampled at show it: then the average by elements,
in which the lowest level is half, is larger. **Few classes** say little, and Student's distribution
takes the place of the normal one.

**What is not seen**: an event repeated so often that it is a good part of the window by itself, and
that was not sampled, leaves no trace, unless its level overflowed because of it: then that level
has more elements than all levels above it, which have as many on average (:func:`sharing`). Lower
bounds hold all the same, as such an event only adds to the truth; see
:mod:`recency.samples.window_sums` for what follows where exact sums are known as well.
"""

from statistics import NormalDist

import numpy as np

from recency.core.arrays import BoolArray, FloatArray, Int64Array, run_lengths, run_starts

_SURELY = 4.75  # standard deviations: once in a million by chance
SHARED = (
    "the sample contradicts itself: more than {} events are at level {}, and only {} above it, "
    "where about as many belong. Events with equal id, time and value share a coin, and so do "
    "those of merged sketches that had one stream number: give ids that tell events apart, or "
    "none, and different stream numbers"
)
_LEAST_Z = 0.01  # the ratio of both quantiles hardly changes below
_ODD = np.uint64(0x9E3779B97F4A7C15)


def dispersion(
    keys: Int64Array, depths: Int64Array, classes: tuple[Int64Array, ...], size: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """D of each of ``size`` keys by classes, the degrees of freedom of that, and D by elements.

    ``depths`` are levels above the lowest of the key's sample; ``classes`` are the columns that
    elements with one coin have in common. Where no two elements are alike: 1, infinitely many, 1.
    """
    if not _has_twins(keys, depths, *classes):
        return np.ones(size), np.full(size, np.inf), np.ones(size)
    order = np.lexsort((depths, *classes, keys))
    keys, depths = keys[order], depths[order]
    kind = run_starts(keys, *(column[order] for column in classes))

    # Elements of one class at one depth: x of them, and `rest` at that depth or above.
    of_class = np.zeros(keys.size, dtype=np.int64)
    of_class[kind[1:]] = 1
    of_class = np.cumsum(of_class)
    first = run_starts(of_class, depths)
    x = run_lengths(first, keys.size)
    keys, depths, of_class = keys[first], depths[first], of_class[first]
    ends = np.append(kind[1:], order.size)
    rest = ends[of_class] - first
    begins = np.append(True, of_class[1:] != of_class[:-1])
    previous = np.where(begins, -1, np.append(-1, depths[:-1]))

    # Depths that are skipped have x = 0 and y = rest. Sums over a range of depths are differences.
    width = int(depths.max()) + 2
    sums = np.zeros((3, size * width))
    place = keys * width
    squares = rest.astype(np.float64) ** 2
    here = (2.0 * x - rest) ** 2
    for row, at_depth, below in zip(
        sums, (here, rest, squares), (squares, rest, squares), strict=True
    ):
        row += np.bincount(place + previous + 1, below, row.size)
        row += np.bincount(place + depths, at_depth - below, row.size)
        row -= np.bincount(place + depths + 1, at_depth, row.size)
    differences, counts, squared = np.cumsum(sums.reshape(3, size, width), axis=2)
    told = counts > 0.5
    alike = np.where(told, counts**2 / np.where(told, squared, 1), 0)  # classes of equal size
    ratio = np.where(told, differences / np.where(told, counts, 1), 0)
    several = np.bincount(keys, x > 1, size) > 0
    freedom = np.where(several, _in_turn(alike), np.inf)
    by_class = _in_turn(alike * ratio) / np.where(several, freedom, 1.0)
    by_element = differences.sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    return np.where(several, by_class, 1.0), freedom, np.where(several, by_element, 1.0)


def _in_turn(rows: FloatArray) -> FloatArray:
    """The sum of each row, from left to right: zeros at its end have no effect on rounding."""
    sums: FloatArray = np.cumsum(rows, axis=1)[:, -1]
    return sums


def _has_twins(*columns: Int64Array) -> bool:
    """Whether two rows may be equal: a quick look at hashes, which sort fast."""
    hashes = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        hashes = (hashes ^ column.view(np.uint64)) * _ODD
        hashes ^= hashes >> np.uint64(29)
    hashes.sort()
    return bool((hashes[1:] == hashes[:-1]).any())


def wider(
    by_class: FloatArray, freedom: FloatArray, by_element: FloatArray, confidence: float
) -> FloatArray:
    """By how much variances are to be multiplied for intervals of a confidence; at least 1.

    Student's quantile, by a formula that is a little too large (Wallace 1959), over the normal one.
    """
    z = max(NormalDist().inv_cdf((1 + confidence) / 2), _LEAST_Z)
    known = np.isfinite(freedom)
    n = np.where(known, freedom, 1.0)
    scaled = z * (8 * n + 3) / (8 * n + 1)
    square = n * np.expm1(np.minimum(scaled**2 / n, 600.0))
    widened = np.where(known, by_class * square / z**2, 1.0)
    return np.maximum(np.maximum(widened, by_element), 1.0)


def sharing(sampled: Int64Array, factor: FloatArray, capacity: int) -> BoolArray:
    """Whether samples are so small that their coins cannot be independent.

    The level below the ones that answer has overflowed, so it has more than ``capacity`` elements,
    and these have as many on average.
    """
    more = capacity + 1 - sampled
    far: BoolArray = more > _SURELY * np.sqrt(factor * (capacity + 1 + sampled))
    return far
