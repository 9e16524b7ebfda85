"""What the laws do not test: questions, predicates, error texts, exactness, coins."""

import math
from dataclasses import astuple, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from recency import (
    CorruptSketchError,
    DyadicEcm,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    SumWave,
    loads,
    merge_all,
)
from recency.core import codec
from recency.core.codec import RecordWriter
from recency.core.hashing import hash_chain
from recency.core.level_sample import group_of, levels_of_items
from states import body_of, tally_of
from states import change as put_into


def wave_of(items, **settings):
    wave = RandomizedWave(**settings)
    wave.update_many(items, at=range(len(items)))
    return wave


def test_distinct_items_are_exact_up_to_capacity():
    wave = wave_of([n % 1000 for n in range(20_000)])
    assert wave.query().exact
    assert float(wave.query()) == 1000
    assert float(wave.query(300)) == 300


def test_only_the_most_recent_time_of_an_item_counts():
    wave = RandomizedWave()
    wave.update("a", at=100)
    wave.update("b", at=90)
    wave.update("a", at=50)  # late, and older: changes nothing
    assert [float(wave.query(w, now=100)) for w in (1, 10, 11, 60)] == [1, 1, 2, 2]


def test_predicates_and_samples_need_kept_items():
    wave = wave_of(range(10))
    with pytest.raises(ValueError, match="keep_items=True"):
        wave.query(where=lambda items: items > 3)
    with pytest.raises(ValueError, match="keep_items=True"):
        wave.sample()
    with pytest.raises(TypeError, match="keep_items must be a bool"):
        RandomizedWave(keep_items="yes")


def test_predicates_on_integers_and_text():
    wave = wave_of(range(100), keep_items=True)
    assert float(wave.query(where=lambda items: items % 2 == 0)) == 50
    assert float(wave.query(10, where=lambda items: items % 2 == 0)) == 5
    assert sorted(wave.sample(10)) == list(range(90, 100))
    words = wave_of(["ant", "bee", "asp", b"raw", 7], keep_items=True)
    where = lambda items: [isinstance(x, str) and x.startswith("a") for x in items]  # noqa: E731
    assert float(words.query(where=where)) == 2
    assert set(words.sample()) == {"ant", "bee", "asp", b"raw", 7}
    assert loads(words.to_bytes()).query(where=where) == words.query(where=where)
    assert RandomizedWave(keep_items=True).sample() == []
    assert float(wave.query(1, now=10_000, where=lambda items: items > 0)) == 0


@pytest.mark.parametrize(
    ("where", "error"),
    [
        (lambda items: items[:3] > 0, ValueError),
        (lambda items: items, TypeError),
        (lambda items: None, TypeError),
        (lambda items: True, ValueError),
        (lambda items: ["yes"] * len(items), TypeError),
    ],
)
def test_predicates_that_return_something_else_are_refused(where, error):
    wave = wave_of(range(10), keep_items=True)
    with pytest.raises(error, match="where must return"):
        wave.query(where=where)


def test_numpy_scalars_are_kept_as_plain_items():
    wave = RandomizedWave(keep_items=True)
    wave.update(np.int32(5), at=1)
    wave.update(np.str_("x"), at=2)
    wave.update_many(np.array(["y", "z"]), at=[3, 4])
    assert {type(item) for item in wave.sample()} == {int, str}
    assert loads(wave.to_bytes()) == wave


def test_sums_are_exact_while_nothing_was_discarded():
    """Xu et al. 2008, Lemma 4, with floats whose sum depends on the order in plain arithmetic."""
    rng = np.random.default_rng(2)
    values = rng.random(1000) * 10.0 ** rng.integers(-8, 8, 1000)
    wave = SumWave()
    wave.update_many(values, at=rng.permutation(1000))
    assert wave.query().exact
    assert float(wave.query()) == math.fsum(values)


def test_zero_only_changes_latest():
    wave = SumWave(window=10)
    wave.update(5, at=1)
    wave.update(0, at=100)
    assert wave.latest == 100
    assert float(wave.query()) == 0


def test_a_sum_of_the_default_value_is_a_count():
    wave = SumWave()
    wave.update_many(at=range(50))
    wave.update(at=50)
    assert float(wave.query(20)) == 20


def test_ids_only_determine_coins():
    wave = SumWave()
    wave.update_many([1, 1, 1], at=[1, 2, 2], id=["x", "x", "x"])
    assert float(wave.query()) == 3


def coins_of(sketch):
    tally = tally_of(sketch)
    return int(tally.stream[0]), int(tally.index[0])


def test_stream_and_position_are_part_of_the_state():
    one, other = SumWave(stream=1), SumWave(stream=2)
    assert one.config == other.config
    assert one != other
    one.update_many(at=range(10))
    other.update_many(at=range(5))
    merged = merge_all([one, other])
    assert coins_of(merged) == (1, 15)
    assert coins_of(one.empty_like()) == (1, 0)
    assert coins_of(one.empty_like(stream=7)) == (7, 0)
    with pytest.raises(ValueError, match="stream must be at least 0"):
        SumWave(stream=-1)


def test_quantiles_of_small_windows_are_exact():
    wave = QuantileWave()
    wave.update_many([5, 1, 4, 2, 3], at=[3, 1, 2, 5, 4])
    assert float(wave.query()) == 3
    assert wave.query(0.5).exact
    assert wave.quantiles([0, 0.2, 0.21, 0.8, 1]).value.tolist() == [1, 1, 2, 4, 5]
    assert float(wave.query(1, window=2)) == 3
    assert float(wave.rank(3)) == 0.6
    assert float(wave.rank(0)) == 0
    assert float(wave.count(2)) == 2


def test_every_percentile_is_the_least_value_whose_rank_reaches_it():
    wave = QuantileWave()
    cells = DyadicEcm(universe_bits=7, relative_error=0.01, min_threshold=0.1)
    wave.update_many(range(1, 101), at=range(100))
    cells.update_many(list(range(1, 101)), at=range(100))
    for percent in range(1, 101):
        assert wave.query(percent / 100).value == percent
        assert cells.quantile(percent / 100).value == percent


def test_bad_quantile_questions():
    wave = QuantileWave(window=10)
    for empty in (lambda: wave.query(), lambda: wave.rank(1)):
        with pytest.raises(ValueError, match="the window has none"):
            empty()
    assert float(wave.count()) == 0
    wave.update(1.5, at=5)
    for q in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="q must be"):
            wave.query(q)
    with pytest.raises(TypeError, match="q must be"):
        wave.query("median")
    with pytest.raises(ValueError, match="the window has none"):
        wave.query(0.5, window=1, now=100)


@pytest.mark.parametrize("cls", [RandomizedWave, SumWave, QuantileWave])
def test_constructor_arguments(cls):
    error = "rank_error" if cls is QuantileWave else "relative_error"
    for name in (error, "confidence"):
        with pytest.raises(ValueError, match=rf"{name} must be in \(0, 1\), got 1.5"):
            cls(**{name: 1.5})
    with pytest.raises(ValueError, match="capacity must be in"):
        cls(capacity=0)
    with pytest.raises(TypeError, match="seed must be an integer"):
        cls(seed="x")
    with pytest.raises(ValueError, match="unit must be one of"):
        cls(unit="h")
    assert cls(capacity=100).guarantee > cls(capacity=1000).guarantee
    assert cls().guarantee == getattr(cls().config, error)


def test_late_events_in_any_order_with_datetimes():
    wave = RandomizedWave(window="1 hour", unit="s")
    for minute in (30, 10, 50, 20):
        wave.update("visitor", at=datetime(2026, 1, 1, 12, minute, tzinfo=UTC))
    wave.update("other", at=datetime(2026, 1, 1, 12, 5, tzinfo=UTC))
    assert float(wave.query("30 minutes")) == 1
    assert float(wave.query("50 minutes")) == 2


def test_events_older_than_the_window_are_ignored():
    wave = RandomizedWave(window=10)
    wave.update(1, at=100)
    before = wave.to_bytes()
    wave.update(2, at=90)
    assert wave.to_bytes() == before


def test_nth_recent_questions():
    wave = NthRecentWave(window=100, relative_error=0.1)
    with pytest.raises(ValueError, match=r"number of 1s seen \(0\), got 1"):
        wave.query()
    wave.update_many([1, 0, 1, 1], at=[10, 20, 30, 30])
    assert [float(wave.query(n)) for n in (1, 2, 3)] == [0, 0, 20]
    assert float(wave.query(3, now=40)) == 30
    with pytest.raises(ValueError, match=r"\(3\), got 4"):
        wave.query(4)
    with pytest.raises(ValueError, match="n must be at least 1"):
        wave.query(0)
    with pytest.raises(ValueError, match="now must not be before"):
        wave.query(1, now=29)
    wave.update(0, at=500)
    with pytest.raises(ValueError, match="older than the largest window"):
        wave.query(1)


def test_nth_recent_keeps_its_guarantee_on_a_long_stream():
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.integers(0, 50, 50_000))
    wave = NthRecentWave(relative_error=0.05)
    wave.update_many(at=times)
    for n in np.unique(np.geomspace(1, 50_000, 300).astype(int)).tolist():
        answer, age = wave.query(n), int(times[-1] - times[-n])
        assert answer.lower <= age <= answer.upper
        assert abs(answer.value - age) <= 0.05 * age
    assert body_of(wave).times.size <= 11 * 22


def test_lone_surrogates_are_valid_items():
    wave = RandomizedWave(keep_items=True)
    wave.update("\ud800", at=1)
    wave.update_many(["\ud800", "a", "\udfff"], at=[2, 2, 2])
    assert float(wave.query()) == 3
    assert loads(wave.to_bytes()).sample() == wave.sample()
    total = SumWave()
    total.update(2, at=1, id="\ud800")
    assert float(total.query()) == 2


def test_the_container_of_items_has_no_effect():
    items = ["a", 5, b"x", "a\0", ""]
    waves = []
    for container in (list, tuple, lambda x: np.array(x, dtype=object)):
        wave = RandomizedWave(keep_items=True)
        wave.update_many(container(items), at=1)
        assert set(wave.sample()) == set(items)
        waves.append(wave)
    assert waves[0] == waves[1] == waves[2]


def test_negative_zero_equals_zero():
    one, other = QuantileWave(capacity=10), QuantileWave(capacity=10)
    one.update_many([0.0, -0.0], at=1, id=[5, 1005])
    other.update_many([-0.0, 0.0], at=1, id=[1005, 5])
    assert one == other
    assert loads(one.to_bytes()) == one


def test_positions_of_coins_stay_within_int64():
    wave = SumWave(capacity=5)
    wave.update_many(at=range(100))
    for _ in range(64):
        wave.merge(wave)
    wave.update(at=100)
    wave.update_many(at=[101, 102])
    assert loads(wave.to_bytes()) == wave


def forged(sketch, **change):
    """Return the bytes of a sketch whose sample was changed."""
    body = body_of(sketch)
    put_into(sketch, body=replace(body, sample=replace(body.sample, **change)))
    return sketch.to_bytes()


def test_forged_states_are_corrupt():
    def wave(**settings):
        return wave_of([1, 2, 3], capacity=5, **settings)

    far = group_of(0, np.array([1500]))
    for make in (wave, lambda: _sum_of([1, 2, 3])):
        with pytest.raises(CorruptSketchError, match=r"levels? out of"):
            loads(forged(make(), edge_groups=far, edges=np.array([1])))
    with pytest.raises(CorruptSketchError, match="level out of range"):
        loads(forged(wave(), groups=group_of(0, np.array([-1, 0, 1]))))
    kept = wave(keep_items=True)
    identity, items = body_of(kept).sample.columns
    with pytest.raises(CorruptSketchError, match="does not belong to its hash"):
        loads(forged(kept, columns=(identity, items[[1, 0, 2]])))
    with pytest.raises(CorruptSketchError, match="not its own"):
        loads(forged(_sum_of([1.0, 1.0]), columns=(np.array([1e9, 1.0]),)))
    events = _sum_of([1, 2, 3])
    put_into(events, index=2)
    frame = events.to_bytes()
    with pytest.raises(CorruptSketchError, match="more events than were seen"):
        loads(frame)


def _sum_of(values):
    wave = SumWave(capacity=5)
    wave.update_many(values, at=range(len(values)))
    return wave


def test_counts_beyond_the_bytes_are_refused_before_memory_is_allocated():
    """Records of three numbers: flags, a latest time, and a number of missing edges."""
    sketch = RandomizedWave(capacity=5)
    config = codec.encode_config(astuple(sketch.config))
    for count in (2**30, 2**40, 2**62):
        writer = RecordWriter(1)
        writer.ragged(np.array([1, 20, count], dtype=np.uint64), np.array([3]))
        frame = codec.encode_many(sketch.family, config, writer)[0]
        with pytest.raises(CorruptSketchError, match="shorter than its counts"):
            loads(frame)


def test_a_capacity_is_always_written():
    config = RandomizedWave(capacity=5).config
    writer = RecordWriter(1)
    writer.scalar(np.zeros(1, dtype=np.uint64))
    settings = codec.encode_config(astuple(replace(config, capacity=None, relative_error=5e-324)))
    with pytest.raises(CorruptSketchError, match="no capacity"):
        loads(codec.encode_many(RandomizedWave.family, settings, writer)[0])


def test_bad_numbers_and_confidences_are_refused():
    for bad in ([3.0], [1, 2]):
        with pytest.raises(TypeError, match="value must be a number, got list"):
            SumWave().update(bad, at=1)
        with pytest.raises(TypeError, match="value must be a number, got list"):
            QuantileWave().rank(bad)
    with pytest.raises(ValueError, match="value must be finite and within float64"):
        SumWave().update(10**400, at=1)
    big = QuantileWave()
    big.update(1.7e308, at=1)
    assert float(big.query()) == 1.7e308
    with pytest.raises(ValueError, match="confidence must be at most"):
        SumWave(confidence=1 - 1.2e-16)
    assert "guarantee" in repr(RandomizedWave(relative_error=1e-170, capacity=5))


def test_a_window_without_sampled_values_says_so():
    """Events of one time are dropped together: each level with two or more events is empty."""
    wave = QuantileWave(capacity=1, seed=5)
    wave.update_many(np.arange(1000.0), at=np.zeros(1000, dtype=int), id=np.arange(1000))
    ticks, bits = np.zeros(1000, dtype=int), np.arange(1000.0).view(np.int64)
    levels = levels_of_items(hash_chain(5, np.arange(1000), ticks, bits))
    assert np.bincount(levels)[-1] > 1  # the highest level has several: nothing above is left
    with pytest.raises(ValueError, match="was sampled: it needs a larger capacity"):
        wave.query()
    assert wave.count().lower <= 1000 <= wave.count().upper
