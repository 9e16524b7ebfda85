"""The closed form against the papers' own algorithms, and the kernel against itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency import DeterministicWave, ExponentialHistogram, merge_all
from recency.core.appended import Appended
from recency.core.arrays import INT64_MAX, INT64_MIN, cutoffs
from recency.core.rank_log import EXPONENTIAL, WAVE, RankLog, guarantee, loosest, tightness_for_tree
from unit.oracles import CascadingHistogram, QueuedWave

RULES = [(EXPONENTIAL, CascadingHistogram), (WAVE, QueuedWave)]
NEVER = INT64_MIN


def column(*values):
    return np.array(values, dtype=np.int64)


def single(rule, tightness):
    return RankLog.empty(rule, column(tightness))


def append_one_key(log, times, values, cutoff=NEVER):
    keys = np.zeros(len(times), dtype=np.int64)
    return log.append(keys, np.asarray(times), np.asarray(values), column(cutoff))


@pytest.mark.parametrize(("rule", "oracle"), RULES)
@pytest.mark.parametrize("tightness", range(2, 17))
def test_unit_stream_keeps_what_the_paper_keeps(rule, oracle, tightness):
    slow, log = oracle(tightness), single(rule, tightness)
    for rank in range(1, 3001):
        slow.add_unit()
        log = append_one_key(log, [rank], [1])
        if rank % 7 == 0 or rank < 200:
            kept = log.ranks.tolist()
            # the first item is ours: it makes windows that cover everything exact
            assert kept == sorted({1, *slow.remembered()}), rank
    batch = append_one_key(single(rule, tightness), np.arange(1, 3001), np.ones(3000, np.int64))
    assert batch.ranks.tolist() == log.ranks.tolist()


@pytest.mark.parametrize(("rule", "oracle"), RULES)
@pytest.mark.parametrize("tightness", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("most", [2, 9, 300])
def test_weighted_entries_are_kept_iff_they_hold_a_kept_unit(rule, oracle, tightness, most):
    rng = np.random.default_rng(most)
    slow, log, items = oracle(tightness), single(rule, tightness), []
    for time in range(400):
        value = int(rng.integers(1, most + 1))
        for _ in range(value):
            slow.add_unit()
        items.append((slow.total - value, slow.total))
        log = append_one_key(log, [time], [value])
        if time % 13 == 0 or time > 390:
            remembered = np.array(slow.remembered())
            expected = [
                (low, high)
                for low, high in items
                if low == 0 or ((remembered > low) & (remembered <= high)).any()
            ]
            assert list(zip(log.ranks - log.values, log.ranks, strict=True)) == expected


@pytest.mark.parametrize("rule", [EXPONENTIAL, WAVE])
def test_very_large_ranks_do_not_overflow(rule):
    log = single(rule, 20)
    value = 2**57
    for time in range(63):
        log = append_one_key(log, [time], [value])
    assert log.totals[0] == 63 * value
    assert log.ranks[-1] == log.totals[0]
    assert log.flaw(column(62), column(NEVER)) is None
    lower, upper = log.bounds(column(61))
    assert lower[0] == upper[0] == value


@settings(max_examples=60)
@given(data=st.data(), rule=st.sampled_from([EXPONENTIAL, WAVE]))
def test_many_keys_in_one_call_equal_separate_logs(data, rule):
    size, keys = data.draw(st.integers(1, 300)), 5
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    owner = rng.choice(keys, size, p=[0.7, 0.2, 0.06, 0.04, 0.0])
    times, values = np.cumsum(rng.integers(0, 3, size)), rng.integers(1, 20, size)
    window = data.draw(st.sampled_from([None, 5, 50]))
    latest = np.array([times[owner == key].max(initial=0) for key in range(keys)])
    cutoff = cutoffs(latest, window)
    together = RankLog.empty(rule, np.full(keys, 4))
    for part in np.array_split(np.arange(size), data.draw(st.integers(1, 4))):
        shuffled = rng.permutation(part)
        together = together.append(owner[shuffled], times[shuffled], values[shuffled], cutoff)
    alone = []
    for key in range(keys):
        mine = owner == key
        log = append_one_key(single(rule, 4), times[mine], values[mine], cutoff[key])
        alone.append(log)
    for mine, theirs in zip(together.split(), alone, strict=True):
        for name in ("tightness", "totals", "starts", "times", "ranks", "values"):
            assert getattr(mine, name).tolist() == getattr(theirs, name).tolist()
    assert together.flaw(latest, cutoff) is None
    since = cutoff + rng.integers(0, 9, keys) if window else rng.integers(-1, times.max() + 1, keys)
    lower, upper = together.bounds(since)
    for key, log in enumerate(alone):
        assert [lower[key], upper[key]] == [b[0] for b in log.bounds(since[key : key + 1])]
        assert log.bounds_of_one(int(since[key])) == (lower[key], upper[key])
        truth = values[(owner == key) & (times > since[key])].sum()
        assert lower[key] <= truth <= upper[key]
    back = RankLog.joined(alone)
    assert back.starts.tolist() == together.starts.tolist()
    assert back.ranks.tolist() == together.ranks.tolist()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), rule=st.sampled_from([EXPONENTIAL, WAVE]), gap=st.booleans())
def test_appending_units_equals_appending_sorted_rows(seed, rule, gap):
    rng = np.random.default_rng(seed)
    keys = 4
    slow = fast = RankLog.empty(rule, np.full(keys, int(rng.integers(2, 6))))
    end = 0
    for size in rng.integers(1, 600, 4):
        owner = np.sort(rng.choice(keys, size, p=[0.8, 0.15, 0.05, 0.0]))
        # Without the gap a batch may begin at the time of an item that is there already.
        times = np.concatenate(
            [end + gap + np.arange(count) for count in np.bincount(owner, minlength=keys)]
        )
        end = int(times.max())
        cutoff = cutoffs(np.full(keys, end), 300)
        slow = slow.append(owner, times, np.ones(size, dtype=np.int64), cutoff)
        counts = np.bincount(owner, minlength=keys)
        fast = fast.append_units(counts, times.__getitem__, cutoff)
        for name in ("totals", "starts", "times", "ranks", "values"):
            assert getattr(fast, name).tolist() == getattr(slow, name).tolist()


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), rule=st.sampled_from([EXPONENTIAL, WAVE]))
def test_rows_after_a_log_answer_as_if_they_were_appended(seed, rule):
    rng = np.random.default_rng(seed)
    log = single(rule, int(rng.choice([2, 3, 5, 20])))
    step, most = rng.choice([0, 1, 3, 40]), rng.choice([1, 2, 9, 2**40, 2**52])
    window = rng.choice([None, 1, 5, 60, 400])
    end = int(rng.choice([INT64_MIN + 1, -20, INT64_MAX - 30_000]))
    for _ in range(8):
        times = values = column()
        for size in rng.integers(0, 30, 2):
            more = end + rng.permutation(np.cumsum(rng.integers(0, step + 1, size)))
            times = np.append(times, more)
            values = np.append(values, rng.integers(1, most + 1, size))
            end = int(more.max(initial=end)) + int(rng.choice([0, 0, 50]))
            cutoff = cutoffs(column(end), window)
            waiting = Appended.to(log, times, values, cutoff)
            after = append_one_key(log, times, values, int(cutoff[0]))
            assert waiting.totals.tolist() == after.totals.tolist()
            edges = [int(cutoff[0]), end, *times.tolist(), *log.times[-80:].tolist()]
            for since in {each - shift for each in edges for shift in (0, 1)}:
                if cutoff[0] <= since <= end:
                    assert waiting.bounds(column(since)) == after.bounds(column(since)), since
        log = after


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])
def test_questions_between_updates_are_answered_as_the_state_does(cls, merged):
    rng = np.random.default_rng(5)
    sketch = cls(window=500, relative_error=0.3, late="clamp")
    if merged:
        parts = [sketch.copy() for _ in range(3)]
        for part in parts:
            part.update_many(rng.integers(0, 3, 400), at=np.sort(rng.integers(-600, 1, 400)))
        sketch = merge_all(parts)
    other = sketch.copy()
    for now in np.cumsum(rng.integers(0, 6, 1500)).tolist():
        at = now + rng.integers(0, 3, 1 if rng.random() < 0.9 else 5)
        values = rng.integers(0, 3, at.size)
        for each in (sketch, other):
            if at.size == 1:
                each.update(int(values[0]), at=int(at[0]))
            else:
                each.update_many(values, at=at)
        other.to_bytes()
        for window in rng.integers(1, 501, 2).tolist():
            asked = {"window": window, "now": sketch.latest + int(rng.integers(0, 3))}
            assert sketch.query(**asked) == other.query(**asked)
    assert sketch.to_bytes() == other.to_bytes()


def test_merging_keyed_logs_equals_merging_each_key():
    rng = np.random.default_rng(0)
    cutoff = cutoffs(column(999, 999, 999), 300)
    tightness = np.full(3, 6)
    logs = []
    for _ in range(4):
        times = np.sort(rng.integers(0, 1000, 2000))
        log = RankLog.empty(EXPONENTIAL, tightness)
        logs.append(log.append(rng.integers(0, 3, 2000), times, np.ones(2000, np.int64), cutoff))

    def merged(logs, keys):
        none = RankLog.empty(EXPONENTIAL, tightness[:keys])
        into, cutoffs = np.tile(np.arange(keys), 4), np.tile(cutoff[:keys], 4)
        return RankLog.joined(logs).replayed_into(none, into, cutoffs, cutoff[:keys])

    together = merged(logs, 3)
    for key, part in enumerate(together.split()):
        alone = merged([log.split()[key] for log in logs], 1)
        assert part.times.tolist() == alone.times.tolist()
        assert part.ranks.tolist() == alone.ranks.tolist()


def test_few_expired_entries_remain():
    log = single(EXPONENTIAL, 20)
    times = np.arange(1_000_000)
    for part in np.array_split(times, 50):
        log = append_one_key(log, part, np.ones(part.size, np.int64), int(part[-1]) - 100)
    expired = log.times <= 999_999 - 100
    assert 0 < expired.sum() <= 63
    levels = [int(r & -r).bit_length() for r in log.ranks[expired]]
    assert levels == sorted(set(levels), reverse=True)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"tightness": column(1)}, "tightness"),
        ({"values": column(0, 1, 1)}, "ranks out of order"),
        ({"ranks": column(1, 1, 3)}, "ranks out of order"),
        ({"times": column(1, 1, 3)}, "times out of order"),
        ({"totals": column(4)}, "newest item"),
        ({"times": column(1, 2, 11)}, "later than the latest"),
    ],
)
def test_flaws_are_named(change, flaw):
    from dataclasses import replace

    log = append_one_key(single(EXPONENTIAL, 4), [1, 2, 3], [1, 1, 1])
    latest, cutoff = column(10), column(NEVER)
    assert log.flaw(latest, cutoff) is None
    assert flaw in replace(log, **change).flaw(latest, cutoff)


def test_missing_entries_are_flaws():
    from dataclasses import replace

    log = append_one_key(single(EXPONENTIAL, 2), np.arange(100), np.ones(100, np.int64))

    def without(i):
        keep = np.arange(log.times.size) != i
        return replace(
            log,
            starts=column(0, keep.sum()),
            **{name: getattr(log, name)[keep] for name in ("times", "ranks", "values")},
        )

    latest, cutoff = column(99), column(NEVER)
    assert "missing" in without(3).flaw(latest, cutoff)
    assert "first item is missing" in without(0).flaw(latest, cutoff)
    assert without(0).flaw(latest, column(5)) is None  # it may have expired
    looser = replace(log, tightness=column(3))
    assert "missing" in looser.flaw(latest, cutoff)
    tighter = append_one_key(single(EXPONENTIAL, 3), np.arange(100), np.ones(100, np.int64))
    assert "not remembered" in replace(tighter, tightness=column(2)).flaw(latest, cutoff)


@pytest.mark.parametrize("rule", [EXPONENTIAL, WAVE])
@pytest.mark.parametrize("window", [None, 300])
def test_a_loosened_log_is_the_log_of_less_tightness(rule, window):
    """For all entries before and after, so tightness that is not needed can be dropped."""
    rng = np.random.default_rng(11)
    for most in (1, 5, 200):
        times = np.cumsum(rng.choice([0, 1, 1, 9], 3000))
        values = rng.integers(1, most + 1, 3000)
        for tight, loose in [(9, 2), (40, 20), (41, 20), (20, 20), (7, 50)]:
            half = slice(0, 1500), slice(1500, 3000)
            tightly, directly = single(rule, tight), single(rule, min(tight, loose))
            for rows in half:
                edge = int(cutoffs(times[rows][-1:], window)[0])
                tightly = append_one_key(tightly, times[rows], values[rows], edge)
                directly = append_one_key(directly, times[rows], values[rows], edge)
                loosened = tightly.loosened(column(loose), column(edge))
                for name in ("tightness", "totals", "starts", "times", "ranks", "values"):
                    assert getattr(loosened, name).tolist() == getattr(directly, name).tolist()
                tightly = loosened


@pytest.mark.parametrize("rule", [EXPONENTIAL, WAVE])
def test_the_loosest_log_keeps_the_configured_error(rule):
    spread = np.array([1.0, 1.001, 1.02, 1.049, 1.05, 1.06, 1.02])
    tightness = loosest(rule, 0.05, spread).tolist()
    for factor, enough in zip(spread[:4], tightness, strict=False):
        assert guarantee(factor, rule.relative_error(enough)) <= 0.05
        assert guarantee(factor, rule.relative_error(enough - 1)) > 0.05
    assert tightness[0] == rule.tightness(0.05)
    assert tightness[2] == tightness[6]
    assert min(tightness[4:6]) > 10**15  # nothing is left: whatever is kept stays


@pytest.mark.parametrize("rule", [EXPONENTIAL, WAVE])
def test_leaves_of_a_tree_keep_the_error_whatever_the_rounding(rule):
    for error in [0.21, 0.1025, 0.331, 0.0201, *np.linspace(0.001, 0.9, 200)]:
        for levels in range(1, 6):
            leaf = rule.relative_error(tightness_for_tree(rule, error, levels))
            spread = 1.0
            for _ in range(levels):
                spread *= 1 + leaf
            assert guarantee(spread, leaf) <= error
