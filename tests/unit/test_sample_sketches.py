"""What the laws do not say: questions, predicates, wording, exactness, coins."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from recency import NthRecentWave, QuantileWave, RandomizedWave, SumWave, loads, merge_all


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
    """000 Lemma 4, with floats whose sum depends on the order in plain arithmetic."""
    rng = np.random.default_rng(2)
    values = rng.random(1000) * 10.0 ** rng.integers(-8, 8, 1000)
    wave = SumWave()
    wave.update_many(values, at=rng.permutation(1000))
    assert wave.query().exact
    assert float(wave.query()) == math.fsum(values)


def test_zero_moves_the_clock_and_nothing_else():
    wave = SumWave(window=10)
    wave.update(5, at=1)
    wave.update(0, at=100)
    assert wave.latest == 100
    assert float(wave.query()) == 0


def test_sum_by_scalar_and_by_default_is_counting():
    wave = SumWave()
    wave.update_many(at=range(50))
    wave.update(at=50)
    assert float(wave.query(20)) == 20


def test_ids_make_coins_only():
    wave = SumWave()
    wave.update_many([1, 1, 1], at=[1, 2, 2], id=["x", "x", "x"])
    assert float(wave.query()) == 3


def test_stream_and_index_are_state():
    one, other = SumWave(stream=1), SumWave(stream=2)
    assert one.config == other.config
    assert one != other
    one.update_many(at=range(10))
    other.update_many(at=range(5))
    merged = merge_all([one, other])
    assert merged._extra() == (1, 15)
    assert one.empty_like()._extra() == (1, 0)
    assert one.empty_like(stream=7)._extra() == (7, 0)
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


def test_nth_recent_keeps_its_promise_on_a_long_stream():
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.integers(0, 50, 50_000))
    wave = NthRecentWave(relative_error=0.05)
    wave.update_many(at=times)
    for n in np.unique(np.geomspace(1, 50_000, 300).astype(int)).tolist():
        answer, age = wave.query(n), int(times[-1] - times[-n])
        assert answer.lower <= age <= answer.upper
        assert abs(answer.value - age) <= 0.05 * age
    assert wave._log.times.size <= 11 * 22
