"""Deterministic wave (Gibbons & Tirthapura 2004, §3)."""

from recency.core.rank_log import WAVE
from recency.counters.window_counter import WindowCounter


class DeterministicWave(WindowCounter):
    """Count or sum over any recent window of a stream that arrives in time order.

    The same questions, guarantee, merging and parameters as
    :class:`~recency.ExponentialHistogram`, by another rule of what to remember: of the units whose
    rank is an odd multiple of 2ʲ, the newest ⌈(1/ε + 1)/2⌉ for each j. What an update costs does
    not vary in the original; here neither rule has a cascade, so choose by size.

    **Guarantee.** Within ``relative_error`` of the truth for every window up to the largest
    (Theorem 1, Corollary 1; sums: Theorem 3); the interval is certain.

    **Cost.** 10⁷ events one tick apart at ε = 0.05: 229 remembered times, 0.9 KB as bytes.

    Examples
    --------
    >>> from recency import DeterministicWave
    >>> bits = DeterministicWave(window=48, relative_error=1 / 3, by="count")
    >>> bits.update_many([1, 0, 0, 1] * 25)  # the last 39 hold 19 ones
    >>> bits.query(39)
    Estimate(value=22.5, lower=19.0, upper=26.0, confidence=1.0)

    References
    ----------
    Gibbons & Tirthapura, *Distributed Streams Algorithms for Sliding Windows*, Theory of Computing
    Systems 2004.
    """

    family = 2
    rule = WAVE
