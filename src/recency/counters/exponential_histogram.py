"""Exponential histogram (Datar, Gionis, Indyk & Motwani 2002; Papapetrou et al. 2012, §3, §5.1)."""

from recency.core.rank_log import EXPONENTIAL
from recency.counters.window_counter import WindowCounter


class ExponentialHistogram(WindowCounter):
    """Count or sum over any recent window of a stream that arrives in time order.

    **Guarantee.** The answer is within ``relative_error`` of the truth for every window up to the
    largest, and the interval is certain (confidence 1). After h levels of merging the error is
    (1 + ε)ʰ⁺¹ − 1 at most; ``guarantee`` says what it is now.

    **Cost.** About (1/2ε)·log₂(ε·total) remembered times: 215 of them, 0.8 KB as bytes, for 10⁷
    events one tick apart at ε = 0.05.

    **Merging** is bounded, not exact (Theorem 4): n sketches by :func:`recency.merge_all` cost one
    level, a chain of n − 1 merges costs n − 1. ``empty_like(merge_levels=h)`` makes leaves tight
    enough for h levels. Windows by count cannot be merged (Papapetrou et al. 2012, Fig. 2).

    **Time.** Events must not be older than ``latest``; within one ``update_many`` any order will
    do. Windows are half-open, (now − window, now].

    Parameters
    ----------
    window
        The largest window that may be asked, in ticks or as a duration (with ``unit``); None for
        no bound.
    relative_error
        In (0, 1).
    by
        ``"time"``, or ``"count"``: a window of n is the last n updates.
    late
        ``"raise"`` an ``OutOfOrderError`` for an event before ``latest``, or ``"clamp"`` it to
        ``latest`` and count it in ``late_count``.
    unit
        None (plain integers), ``"s"``, ``"ms"`` or ``"us"`` since 1970.

    Examples
    --------
    >>> from recency import ExponentialHistogram
    >>> requests = ExponentialHistogram(window="1 day", unit="s")
    >>> requests.update_many(at=range(0, 100_000, 2))  # one request every other second
    >>> answer = requests.query("90 minutes")
    >>> answer.lower <= 2700 <= answer.upper  # 2700 is exact
    True
    >>> abs(float(answer) - 2700) <= 0.05 * 2700
    True

    References
    ----------
    Datar, Gionis, Indyk & Motwani, *Maintaining Stream Statistics over Sliding Windows*, SIAM J.
    Comput. 2002. Papapetrou, Garofalakis & Deligiannakis, *Sketch-based Querying of Distributed
    Sliding-Window Data Streams*, VLDB 2012, Theorem 4.
    """

    family = 1
    rule = EXPONENTIAL
