import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency.core.arrays import INT64_MIN, cutoffs
from recency.core.level_sample import (
    _ODD_1,
    NO_LEVEL,
    LevelSample,
    group_of,
    levels_of_items,
    levels_of_weights,
)

NEVER = np.array([INT64_MIN])


def plain_sample(elements, capacity, cutoff):
    """By definition: per level, the elements later than the (α + 1)-th most recent one."""
    kept, edges = [], {}
    for level in {level for level, _, _ in elements}:
        newest_first = sorted((e for e in elements if e[0] == level), key=lambda e: -e[1])
        if len(newest_first) > capacity:
            edges[level] = newest_first[capacity][1]
        floor = max(cutoff, edges.get(level, INT64_MIN))
        kept += [e for e in newest_first if e[1] > floor]
    return sorted(kept), {level: edge for level, edge in edges.items() if edge > cutoff}


@settings(max_examples=150)
@given(data=st.data(), capacity=st.integers(1, 6), distinct=st.booleans())
def test_the_sample_follows_its_definition(data, capacity, distinct):
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=80)
    )
    names, times = np.array(rows).T
    levels = names % 4 - 1  # a function of the identity, negative ones too
    cutoff = data.draw(st.sampled_from([INT64_MIN, 10, 25]))
    sample = LevelSample.empty(capacity, distinct, [np.int64])
    parts = np.array_split(np.arange(names.size), data.draw(st.integers(1, 4)))
    for part in parts:
        now = np.array([cutoff if part is parts[-1] else INT64_MIN])
        sample = sample.absorb(group_of(0, levels[part]), times[part], (names[part],), now)
    elements = list(zip(levels.tolist(), times.tolist(), names.tolist(), strict=True))
    if distinct:
        newest = {name: max(t for _, t, n in elements if n == name) for name in set(names.tolist())}
        elements = [(name % 4 - 1, time, name) for name, time in newest.items()]
    kept, edges = plain_sample(elements, capacity, cutoff)
    mine = zip(
        sample.levels.tolist(), sample.times.tolist(), sample.columns[0].tolist(), strict=True
    )
    assert sorted(mine) == kept
    assert dict(zip(sample.edge_levels.tolist(), sample.edges.tolist(), strict=True)) == edges
    assert sample.flaw(np.array([cutoff])) is None
    for since in range(max(cutoff, -1), 41):
        blind = [level for level, edge in edges.items() if edge > since]
        expected = max(blind) + 1 if blind else NO_LEVEL
        assert sample.query_levels(np.array([since])).tolist() == [expected]


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_items_with_equal_parts_of_hashes_are_different(repeats):
    """The compared bits of a hash are equal for names a · step, where ODD_1 · step = 1."""
    step = pow(int(_ODD_1), -1, 2**64)
    rng = np.random.default_rng(repeats)
    names = np.array([a * step % 2**64 for a in range(40)], dtype=np.uint64).repeat(repeats)
    rng.shuffle(names)
    times = rng.integers(0, 1000, names.size)
    empty = LevelSample.empty(100, True, [np.uint64])
    sample = empty.absorb(group_of(0, np.zeros(names.size, dtype=int)), times, (names,), NEVER)
    newest = {int(name): int(times[names == name].max()) for name in np.unique(names)}
    assert len(newest) == 40
    kept = list(zip(sample.columns[0].tolist(), sample.times.tolist(), strict=True))
    assert sorted(kept) == sorted(newest.items())


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("keys", [5, 200])
def test_many_keys_in_one_call_equal_separate_samples(distinct, keys):
    rng = np.random.default_rng(keys)
    size, capacity = 8000, 7
    owner = rng.integers(0, keys, size)
    names, times = rng.integers(0, 500, size), rng.integers(0, 10_000, size)
    levels = levels_of_items((names + 1).astype(np.uint64))
    latest = np.array([times[owner == key].max() for key in range(keys)])
    cutoff = cutoffs(latest, 6000)
    together = LevelSample.empty(capacity, distinct, [np.int64])
    for part in np.array_split(np.arange(size), 3):
        groups = group_of(owner[part], levels[part])
        together = together.absorb(groups, times[part], (names[part],), cutoff)
    alone = []
    for key in range(keys):
        mine = owner == key
        empty = LevelSample.empty(capacity, distinct, [np.int64])
        alone.append(
            empty.absorb(group_of(0, levels[mine]), times[mine], (names[mine],), cutoff[key:][:1])
        )
    assert together.flaw(cutoff) is None
    for mine, theirs in zip(together.in_order().split(np.arange(keys + 1)), alone, strict=True):
        theirs = theirs.in_order()
        for name in ("groups", "times", "edge_groups", "edges"):
            assert getattr(mine, name).tolist() == getattr(theirs, name).tolist()
        assert mine.columns[0].tolist() == theirs.columns[0].tolist()
    joined = LevelSample.side_by_side(alone).in_order()
    assert joined.groups.tolist() == together.in_order().groups.tolist()
    since = np.full(keys, 9000)
    expected = [int(sample.query_levels(since[:1])[0]) for sample in alone]
    assert together.query_levels(since).tolist() == expected


def test_levels_of_items_are_trailing_zeros():
    hashes = np.array([1, 2, 3, 12, 2**63, 0], dtype=np.uint64)
    assert levels_of_items(hashes).tolist() == [0, 1, 0, 2, 63, 63]


def test_levels_of_weights_are_exact_at_powers_of_two():
    def level(weight, uniform_times_2_53):
        coin = np.array([(uniform_times_2_53 - 1) << 11], dtype=np.uint64)
        return int(levels_of_weights(np.array([weight]), coin)[0])

    assert level(1.0, 2**53) == 0  # U = 1
    assert level(1.0, 2**52) == 1  # U = 1/2
    assert level(1.0, 2**52 + 1) == 0
    assert level(1.0, 1) == 53
    assert level(3.0, 2**53) == 1
    assert level(0.75, 2**53) == -1
    assert level(0.75, 3 * 2**51) == 0  # w = U
    assert level(5e-324, 2**53) == -1074


def test_level_of_a_weight_is_at_least_i_with_probability_w_over_2_to_the_i():
    coins = np.random.default_rng(0).integers(0, 2**64, 200_000, dtype=np.uint64)
    levels = levels_of_weights(np.full(coins.size, 3.0), coins)
    assert levels.min() == 1
    for i, p in [(1, 1.0), (2, 3 / 4), (3, 3 / 8), (6, 3 / 64)]:
        share = (levels >= i).mean()
        assert abs(share - p) <= 5.5 * np.sqrt(p * (1 - p) / coins.size)  # 4e-8 each


def test_times_too_far_apart_to_pack_are_trimmed_too():
    times = np.array([-(2**62), 2**62, 5, 7, 2**62 - 1] * 3) + np.arange(15)
    sample = LevelSample.empty(4, False, []).absorb(
        group_of(0, np.arange(15) % 2), times, (), NEVER
    )
    for level in (0, 1):
        mine = np.sort(times[np.arange(15) % 2 == level])[::-1]
        assert np.sort(sample.times[sample.levels == level])[::-1].tolist() == mine[:4].tolist()


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"edge_groups": group_of(0, np.array([1, 0])), "edges": np.array([1, 1])}, "out of order"),
        ({"edge_groups": group_of(0, np.array([1])), "edges": np.array([-9])}, "edge that has"),
        ({"times": np.array([-9, 5, 6])}, "element that has expired"),
        ({"edge_groups": group_of(0, np.array([0])), "edges": np.array([5])}, "forgotten"),
        ({"capacity": 2}, "too many"),
        ({"columns": (np.array([1, 1, 2]),)}, "twice"),
    ],
)
def test_flaws_are_named(change, flaw):
    from dataclasses import replace

    empty = LevelSample.empty(3, True, [np.int64])
    groups = group_of(0, np.zeros(3, dtype=np.int64))
    sample = empty.absorb(groups, np.array([4, 5, 6]), (np.array([1, 2, 3]),), NEVER)
    assert sample.flaw(np.array([0])) is None
    assert flaw in replace(sample, **change).flaw(np.array([-5]))
