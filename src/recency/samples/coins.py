"""The coins that events draw, and a warning where several sketches drew the same ones.

The coin is a hash of the seed, the ``stream``, the running index of the event in its sketch, its
value and its time; or of the event's ``id``, its time and its value if an id is given. Without the
index two events with equal value and time would share a coin, and the independence that the error
bounds rest on would be gone. Without ``stream``, sketches that are built side by side would draw
the same coins for the same indices, and errors would add up instead of averaging out.

Ids make the coin only: an event that is repeated, id, time and value, counts as often as it comes.
But its repetitions share one coin, so intervals are made for what the sample shows of that (see
:mod:`recency.core.dispersion`), and of exact sums where these are kept
(:mod:`recency.samples.age_sums`).
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from recency.algorithm import NEVER, PerKey
from recency.core import by_key
from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    BoolArray,
    Int64Array,
    UInt64Array,
    nth_of_its_kind,
)
from recency.core.hashing import hash_events, hash_integers, hash_rows
from recency.errors import SharedCoinsWarning


@dataclass(frozen=True, eq=False)
class CoinTally(PerKey):
    """What coins depend on, and what they were drawn from."""

    stream: Int64Array
    index: Int64Array
    """How many events there were."""
    by_id: BoolArray
    """Whether any had an id."""
    start = {**PerKey.start, "by_id": False}  # noqa: RUF012


def drawn(
    seed: int, tally: CoinTally, keys: Int64Array, bits: Int64Array, ticks: Int64Array
) -> UInt64Array:
    """Return the coins of the next events of their keys."""
    if tally.size == 1:
        return hash_events(seed, int(tally.stream[0]), int(tally.index[0]), bits, ticks)
    position = tally.index.view(np.uint64)[keys] + nth_of_its_kind(keys).view(np.uint64)
    seeds = hash_integers(tally.stream, seed)[keys]
    return hash_rows(seeds, position.view(np.int64), bits, np.ascontiguousarray(ticks))


def counted(
    tally: CoinTally, keys: Int64Array, ticks: Int64Array, by_id: BoolArray
) -> tuple[Int64Array, Int64Array, Int64Array, BoolArray]:
    """Return the fields of the tally with new events; ``by_id``: keys with events with ids."""
    latest = by_key.raised(tally.latest, keys, ticks)
    index, _ = by_key.added(tally.index, by_key.counts(keys, tally.size))
    return latest, tally.stream, index, tally.by_id | by_id


def merged(
    tally: CoinTally, into: Int64Array, size: int
) -> tuple[Int64Array, Int64Array, Int64Array, BoolArray]:
    """Return the fields of the tally of ``size`` keys, where key i is merged into ``into[i]``."""
    latest = by_key.raised(np.full(size, NEVER), into, tally.latest)
    index, _ = by_key.sums(into, tally.index, size)
    by_id = np.bincount(into, tally.by_id, size) > 0
    # The least stream that anything was drawn from; where nothing was seen, the first one.
    stream = tally.stream[by_key.firsts(into, size)]
    seen = np.flatnonzero(tally.seen)
    stream[into[seen]] = INT64_MAX
    np.minimum.at(stream, into[seen], tally.stream[seen])
    return latest, stream, index, by_id


def finalized(tally: CoinTally, prototype: CoinTally) -> CoinTally:
    """Return the tally with the prototype's stream for keys whose coins came from no stream."""
    drew = tally.seen & ~tally.by_id
    return replace(tally, stream=np.where(drew, tally.stream, prototype.stream))


def check_shared(tally: CoinTally, into: Int64Array, owners: Int64Array, times: Int64Array) -> None:
    """Warn, once, if keys that are merged drew coins from the same numbers.

    ``owners`` and ``times`` are those of the elements that are kept.
    """
    first, last = np.full(tally.size, INT64_MAX), np.full(tally.size, INT64_MIN)
    np.minimum.at(first, owners, times)
    np.maximum.at(last, owners, times)
    rows = np.flatnonzero((first <= last) & ~tally.by_id)
    rows = rows[np.lexsort((last[rows], first[rows], tally.stream[rows], into[rows]))]
    streams, keys = tally.stream[rows], into[rows]
    shared = (streams[1:] == streams[:-1]) & (keys[1:] == keys[:-1])
    shared &= first[rows][1:] <= last[rows][:-1]
    if shared.any():
        _warn(int(streams[1:][shared][0]))


def warn_of_shared_coins(parts: Sequence[tuple[int, int, int]]) -> None:
    """Warn, once, if sketches (stream, first time, last time) drew coins from the same numbers."""
    for (stream, _, end), (other, begin, _) in pairwise(sorted(parts)):
        if stream == other and begin <= end:
            _warn(stream)


_warned = False


def _warn(stream: int) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"merging sketches of one stream number ({stream}) whose times overlap: events "
        "with equal index, value and time share a coin, and errors add up. Build them with "
        "different stream=… numbers, or give events an id",
        SharedCoinsWarning,
        stacklevel=_caller(),
    )


def _caller() -> int:
    """Return how many frames up the line is that called this package."""
    package = __name__.partition(".")[0]
    frame, up = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, up = frame.f_back, up + 1
    return up
