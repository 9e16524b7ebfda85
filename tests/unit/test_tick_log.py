"""The kernel against the derivation in its module, computed with Python's integers."""

from itertools import combinations, product

import numpy as np
import pytest

from recency.core.arrays import INT64_MAX, INT64_MIN
from recency.core.tick_log import TickLog

ORIGIN = -INT64_MIN
MOST = 4  # 1s of the streams that are tried


def column(*values):
    return np.array(values, dtype=np.int64)


def log_of(tightness, events, latest, cutoff=INT64_MIN):
    """One key; events are (time, count), ascending."""
    times, values = (
        (column(*part) for part in zip(*events, strict=True)) if events else [column()] * 2
    )
    keys = np.zeros(times.size, dtype=np.int64)
    return TickLog.empty(tightness).append(keys, times, values, column(latest), column(cutoff))


def state(log):
    return [
        (int(total), *(part[a:b].tolist() for part in (log.times, log.ranks, log.values)))
        for total, a, b in zip(log.totals, log.starts[:-1], log.starts[1:], strict=True)
    ]


def next_remembered(tick, now, tightness):
    """The first remembered tick after ``tick``, or the one after ``now``: level by level."""

    def up_to(end, level):
        return ((end >> level) + 1) >> 1

    m = [max(up_to(tick, j), up_to(now, j) - tightness) for j in range(64)]
    return min(now + 1, *((2 * m[j] + 1) << j for j in range(64)))


@pytest.mark.parametrize("tightness", [2, 3, 11, 2**62])
def test_a_missing_1_lies_before_the_next_remembered_tick(tightness):
    small = [(t, now) for now in range(1, 90) for t in range(1, now)]
    edges = [2**63 - 1, 2**63, 2**63 + 5, 2**64 - 2, 2**64 - 1]
    far = [
        1,
        2,
        3,
        12345,
        2**40 - 1,
        2**62,
        3 * 2**62,
        *edges,
        *(2**64 - 2**j - 1 for j in range(60)),
    ]
    large = [(t, now) for now in edges for t in far if t < now]
    ticks, nows = zip(*small, *large, strict=True)
    times, latest = (column(*(tick - ORIGIN for tick in each)) for each in (ticks, nows))
    one = np.ones(times.size, dtype=np.int64)
    log = TickLog(2 * one, np.arange(times.size + 1), times, one, one, tightness)
    earliest, last = log.locate(2 * one, latest)
    assert (earliest == times + 1).all()
    expected = [next_remembered(t, now, tightness) - 1 for t, now in zip(ticks, nows, strict=True)]
    assert (last.tolist()) == [tick - ORIGIN for tick in expected]


@pytest.mark.parametrize("newest_tick", [8, 2**63 + 2, 2**64 - 1])
@pytest.mark.parametrize("window", [None, 1, 2, 4])
def test_exactly_the_logs_that_streams_lead_to_have_no_flaw(newest_tick, window):
    latest = newest_tick - ORIGIN
    cutoff = INT64_MIN if window is None else max(latest - window, INT64_MIN)
    items = sorted({1, 2, 2**62, *range(max(newest_tick - 6, 1), newest_tick + 1)})
    items = [tick - ORIGIN for tick in items if tick <= newest_tick]
    # A 1 that is missing may as well be right after the item before it.
    times = sorted({INT64_MIN + 1, *items, *(time + 1 for time in items if time < latest)})
    streams = [
        [(time, count) for time, count in zip(times, counts, strict=True) if count]
        for counts in shares(MOST, len(times))
    ]
    logs = [log_of(2, stream, latest, cutoff) for stream in streams]
    reachable = {str(state(log)) for log in logs if set(log.times.tolist()) <= set(items)}

    # Any choice of items, and of how many more 1s there are before, at and after each.
    accepted = set()
    for size in range(MOST + 1):
        for chosen, more in product(combinations(items, size), shares(MOST - size, 2 * size + 1)):
            gaps, values = column(*more[:size]), column(*more[size:-1]) + 1
            total, ranks = column(size + sum(more)), np.cumsum(gaps + values)
            log = TickLog(total, column(0, size), column(*chosen), ranks, values, 2)
            if log.flaw(column(latest), column(cutoff)) is None:
                accepted.add(str(state(log)))
    assert accepted == reachable


def shares(most, parts):
    """Return all ways to distribute up to ``most`` things over some parts."""
    if parts == 0:
        yield ()
        return
    for here in range(most + 1):
        for rest in shares(most - here, parts - 1):
            yield (here, *rest)


def test_keys_are_independent():
    rng = np.random.default_rng(1)
    size, keys = 400, 5
    log, alone = TickLog.empty(3, keys), [TickLog.empty(3) for _ in range(keys)]
    clock = column(*rng.integers(-100, 100, keys))
    for _ in range(6):
        key = np.sort(rng.integers(0, keys - 1, size))  # the last one never has an event
        times = clock[key] + rng.integers(0, 40, size)
        order = np.lexsort((times, key))
        times, values = times[order], rng.integers(1, 4, size)
        clock = clock + 50
        cutoff = clock - column(1, 30, 100, 10**6, 5)
        log = log.append(key, times, values, clock, cutoff)
        for i in range(keys):
            own = key == i
            nothing = np.zeros(int(own.sum()), dtype=np.int64)
            alone[i] = alone[i].append(
                nothing, times[own], values[own], clock[i : i + 1], cutoff[i : i + 1]
            )
        assert state(log) == state(TickLog.joined(alone))
        assert [state(part) for part in log.split()] == [state(each) for each in alone]
        assert log.flaw(clock, cutoff) is None


def test_merging_equals_one_pass_for_every_key():
    rng = np.random.default_rng(2)
    into = column(2, 0, 2, 2, 0, 3)  # key 1 of the outcome has no events
    parts, cutoff = [], column(INT64_MIN, 0, INT64_MAX - 60, INT64_MAX - 9)
    latest = column(50, 0, INT64_MAX, INT64_MAX)
    whole = []
    for key in into:
        times = np.unique(latest[key] - rng.integers(0, 90, rng.integers(0, 40)))
        events = [(int(time), int(rng.integers(1, 4))) for time in times]
        whole += [(int(key), *event) for event in events]
        parts.append(log_of(2, events, events[-1][0] if events else 0))
    merged = TickLog.joined(parts).merge(into, latest, cutoff)
    rows = [column(*each) for each in zip(*sorted(whole), strict=True)]
    assert state(merged) == state(TickLog.empty(2, 4).append(*rows, latest, cutoff))
