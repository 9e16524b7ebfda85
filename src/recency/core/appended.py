"""A rank log of one key with a few rows after it, for questions that come between updates.

To append to a log is to find what it need not remember any more: a pass over all of its entries,
even for one row. But a question reads two entries, the last before its window and the first inside.
Here rows are put behind the entries as they are, and from the edge of the window we walk to the
next entry, on either side, that :meth:`recency.core.rank_log.RankLog.append` would have kept. So
the answer is that of the log after it.
"""

from dataclasses import dataclass

import numpy as np

from recency.core.arrays import Int64Array
from recency.core.rank_log import RankLog


@dataclass(frozen=True, eq=False)
class Appended:
    """Rows, of which those of one time are an entry, from their first rank to their last.

    The first rows are the entries of the log, so all that it would keep is here, and more.
    """

    log: RankLog
    totals: Int64Array  # of the only key
    times: Int64Array
    before: Int64Array  # units before each row,
    upto: Int64Array  # and up to and including it
    cutoff: int

    @staticmethod
    def to(log: RankLog, times: Int64Array, values: Int64Array, cutoff: Int64Array) -> "Appended":
        """What stands for :meth:`recency.core.rank_log.RankLog.append` to a log with one key."""
        if times.size > 1:
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        upto = np.concatenate([log.totals, values]).cumsum()
        return Appended(
            log,
            upto[-1:],
            np.concatenate([log.times, times]),
            np.concatenate([log.ranks - log.values, upto[:-1]]),
            np.concatenate([log.ranks, upto[1:]]),
            int(cutoff[0]),
        )

    def bounds(self, since: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The least and the most units later than ``since``, which is not before the cutoff."""
        edge, total = int(since[0]), int(self.totals[0])
        older = newer = int(self.times.searchsorted(edge, side="right"))
        if newer == self.times.size:
            return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        while True:  # the newest entry is always kept
            begin, newer = newer, self._end(newer)
            if self._keeps(begin, newer):
                break
        lower, upper, all_in = total - int(self.before[begin]), total, False
        while older:
            end, older = older, self._begin(older)
            if self._keeps(older, end):
                upper = total - int(self.upto[end - 1])
                all_in = int(self.times[older]) == edge
                break
        # Where the window begins at an entry, all units of the gap are on one side of the edge.
        all_out = int(self.times[begin]) == edge + 1
        return np.array([upper if all_in else lower]), np.array([lower if all_out else upper])

    def _begin(self, end: int) -> int:
        """The first row of the entry whose last row is before ``end``."""
        return int(self.times.searchsorted(self.times[end - 1]))

    def _end(self, begin: int) -> int:
        """The row after the entry that begins at a row."""
        return int(self.times.searchsorted(self.times[begin], side="right"))

    def _keeps(self, begin: int, end: int) -> bool:
        """Whether the log would keep an entry, unless a newer expired one stands for it."""
        before, upto = int(self.before[begin]), int(self.upto[end - 1])
        if not before and int(self.times[begin]) > self.cutoff:
            return True
        return self.log.remembers(before, upto, int(self.totals[0]))
