"""Worked examples of the papers."""

import numpy as np
import pytest

from recency import DeterministicWave, ExponentialHistogram, IncompatibleSketchError
from states import body_of

# Gibbons & Tirthapura 2004, Fig. 1: position → 1-rank of the 1-bits that the figure shows, and
# what its text says of Fig. 2 (rank 24 at position 44). Between the points the figure leaves open
# which positions hold the 1s; any choice that fits is a stream of the figure.
FIGURE_1 = dict(
    zip(
        [62, 67, 68, 70, 71, 72, 73, 74, 75, 76, 77, 79, 80, 84, 85, 86, 89, 91, 94, 99],
        range(31, 51),
        strict=True,
    )
)


def figure_1_stream():
    """Position 2 is the first 1, position 44 the 24th, position 62 the 31st, then as printed."""
    ones = [2, *range(22, 44), 44, *range(50, 56), *FIGURE_1]
    assert ones.index(44) + 1 == 24
    assert ones.index(62) + 1 == 31
    assert len(ones) == 50
    bits = np.zeros(99, dtype=np.int64)
    bits[np.array(ones) - 1] = 1
    return bits


def figure_wave():
    # The figure keeps the whole of each level; N = 48 would expire positions up to 51.
    wave = DeterministicWave(relative_error=1 / 3, by="count")
    wave.update_many(figure_1_stream())
    return wave


def test_figure_1_window_of_39_holds_20_ones():
    assert figure_1_stream()[-39:].sum() == 20


def test_figure_2_and_3_positions_in_the_wave():
    log = body_of(figure_wave())
    rank_at = dict(zip(log.times.tolist(), log.ranks.tolist(), strict=True))
    # Fig. 3 stores ⌈(1/ε + 1)/2⌉ = 2 positions at each level below the highest, which holds 4.
    by_level = {}
    for rank in rank_at.values():
        by_level.setdefault((rank & -rank).bit_length() - 1, []).append(rank)
    assert by_level[0] == [1, 47, 49]  # and the first 1 of all, which is ours
    assert by_level[1] == [46, 50]
    assert by_level[2] == [36, 44]
    assert by_level[3] == [24, 40]
    assert sorted(by_level[4] + by_level[5]) == [16, 32, 48]
    assert rank_at[44] == 24
    assert rank_at[67] == 32
    assert rank_at[99] == 50


def test_window_query_of_figure_2():
    wave = figure_wave()
    answer = wave.query(39)
    r1, r2, rank = 24, 32, 50
    assert (answer.lower, answer.upper) == (rank - r2 + 1, rank - r1) == (19, 26)
    assert answer.value == (19 + 26) / 2 == 22.5  # the paper's rank + 1 − (r1 + r2)/2 is 23
    assert answer.lower <= 20 <= answer.upper
    assert abs(answer.value - 20) <= 20 / 3


def test_window_that_starts_at_a_remembered_position_is_exact():
    answer = figure_wave().query(99 - 67 + 1)  # s = p₂ = 67
    assert answer.exact
    assert answer.value == 19


def test_expired_positions_do_not_change_the_answer():
    wave = DeterministicWave(window=48, relative_error=1 / 3, by="count")
    wave.update_many(figure_1_stream())
    assert wave.query(39) == figure_wave().query(39)
    log = body_of(wave)
    assert log.ranks[log.times <= 51].max() == 24  # the figure's r₁


@pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])
def test_count_based_merging_is_refused_papapetrou_figure_2(cls):
    """Two streams that fit both histograms of Fig. 2 and yet have different answers."""

    def stream(positions_of_ones, size):
        bits = np.zeros(size, dtype=np.int64)
        bits[np.array(positions_of_ones) - 1] = 1
        return bits

    first, second = (cls(window=1000, by="count") for _ in range(2))
    first.update_many(stream([500, 1000], 1000))
    second.update_many(stream([*range(893, 901), *range(947, 951), 979, 980, 990, 1000], 1000))
    before = first.to_bytes()
    with pytest.raises(IncompatibleSketchError, match=r"cannot merge .*interleave.*Fig\. 2"):
        first.merge(second)
    assert first.to_bytes() == before
    with pytest.raises(IncompatibleSketchError, match="interleave"):
        first.merge(cls(window=1000, by="count"))  # even an empty one: no surprise later


def test_duplicated_positions_of_section_3_2():
    """(1, 0), (2, 1), (2, 0), (2, 1), (2, 1), (3, 1), (4, 0), (4, 0)."""
    wave = DeterministicWave(window=10, relative_error=1 / 3)
    wave.update_many([0, 1, 0, 1, 1, 1, 0, 0], at=[1, 2, 2, 2, 2, 3, 4, 4])
    assert wave.latest == 4
    assert [float(wave.query(w)) for w in (1, 2, 3, 4)] == [0, 1, 4, 4]


def test_referee_scenario_1_each_party_its_own_window():
    """Gibbons & Tirthapura 2004, §3.4: the last N items of each stream; the answers add."""
    rng = np.random.default_rng(1)
    streams = [rng.integers(0, 2, size) for size in (1000, 3000, 50)]
    parties = []
    for bits in streams:
        party = DeterministicWave(window=200, relative_error=0.1, by="count")
        party.update_many(bits)
        parties.append(party)
    answer = sum(party.query(200) for party in parties)
    truth = sum(bits[-200:].sum() for bits in streams)
    assert answer.lower <= truth <= answer.upper
    assert abs(float(answer) - truth) <= 0.1 * truth


def test_referee_scenario_2_one_logical_stream_split():
    """The same section: items have overall sequence numbers; all are asked for the same now."""
    rng = np.random.default_rng(2)
    bits, owner = rng.integers(0, 2, 5000), rng.integers(0, 4, 5000)
    parties = []
    for index in range(4):
        party = DeterministicWave(window=600, relative_error=0.1)
        party.update_many(bits[owner == index], at=np.flatnonzero(owner == index) + 1)
        parties.append(party)
    answer = sum(party.query(600, now=5000) for party in parties)
    truth = bits[-600:].sum()
    assert answer.lower <= truth <= answer.upper
    assert abs(float(answer) - truth) <= 0.1 * truth


def test_sliding_average_of_section_5():
    """Sum and count, each within ε/(2 + ε), give the average within ε."""
    epsilon = 0.1
    rng = np.random.default_rng(3)
    values, times = rng.integers(0, 100, 20_000), np.sort(rng.integers(0, 50_000, 20_000))
    total, count = (
        ExponentialHistogram(window=10_000, relative_error=epsilon / (2 + epsilon))
        for _ in range(2)
    )
    total.update_many(values, at=times)
    count.update_many(at=times)
    for window in (10, 100, 1000, 10_000):
        average = total.query(window) / count.query(window)
        truth = values[times > times[-1] - window].mean()
        assert average.lower <= truth <= average.upper
        assert abs(float(average) - truth) <= epsilon * truth
