"""Exponential histogram (Datar, Gionis, Indyk & Motwani 2002; Papapetrou et al. 2012, §3, §5.1)."""

from recency.core.rank_log import EXPONENTIAL
from recency.counters.window_counter import WindowCounter


class ExponentialHistogram(WindowCounter):
    """Count or sum over any recent window of a stream that arrives in time order.

    **Guarantee.** For every window up to ``window``, the relative error of the estimate is at most
    ``relative_error`` (ε) and the interval is certain (confidence 1). After h levels of merging the
    error is at most (1 + ε)ʰ⁺¹ − 1; ``guarantee`` is the bound that holds now.

    **Cost.** The sketch stores about (1/2ε)·log₂(ε·total) times. For 10⁷ events one tick apart and
    ε = 0.05 these are 215 times, 0.8 KB as bytes.

    **Merging** is bounded: each level of merging increases the error (Theorem 4).
    :func:`recency.merge_all` merges any number of sketches in one level; n − 1 calls of ``merge``
    in a row are n − 1 levels. Sketches made by ``empty_like(merge_levels=h)`` are accurate enough
    that after h levels of merging the error is still at most ``relative_error``. Windows by count
    cannot be merged (Papapetrou et al. 2012, Fig. 2).

    **Time.** An event must not be older than ``latest``. The rows of one ``update_many`` may be in
    any order.

    Parameters
    ----------
    window
        Longest window that can be queried, in ticks or, with ``unit``, a duration such as
        ``"90 minutes"``. None: no limit.
    relative_error
        Error bound ε, in (0, 1).
    by
        ``"time"``, or ``"count"``: a window of w covers the last w updates.
    late
        What to do with an event older than ``latest``: ``"raise"`` an ``OutOfOrderError``, or
        ``"clamp"``: count it at ``latest``, and in ``late_count``.
    unit
        What a tick is: ``"s"``, ``"ms"`` or ``"us"`` since 1970. None: times are plain integers.

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
