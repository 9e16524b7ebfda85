import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recency import ExponentialHistogram, NthRecentWave, RandomizedWave, loads
from recency.timeunit import to_duration, to_tick, to_ticks

INDIA = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 minutes", 5400),
        ("24h", 86_400),
        ("7 days", 604_800),
        ("1 day 12 hours", 129_600),
        ("1.5h", 5400),
        ("2w", 1_209_600),
        (" 30 s ", 30),
        ("1000ms", 1),
    ],
)
def test_durations(text, seconds):
    assert to_duration(text, "s") == seconds
    assert to_duration(text, "us") == seconds * 1_000_000
    assert to_duration(timedelta(seconds=seconds), "ms") == seconds * 1000
    assert to_duration(np.timedelta64(seconds, "s"), "ms") == seconds * 1000


@pytest.mark.parametrize(
    "bad", ["", "hour", "5", "5 fortnights", "h5", "-1h", "1h,", "1e3 s", "5 parsecs 1h"]
)
def test_unknown_durations_are_refused(bad):
    with pytest.raises(ValueError, match="window must be a duration such as"):
        to_duration(bad, "s")


def test_durations_finer_than_the_unit_or_empty_are_refused():
    with pytest.raises(ValueError, match="whole number of s"):
        to_duration("1500 ms", "s")
    with pytest.raises(ValueError, match="whole number of ms"):
        to_duration(timedelta(microseconds=1), "ms")
    for zero in ("0 s", timedelta(0), timedelta(seconds=-1), np.timedelta64(0, "s")):
        with pytest.raises(ValueError, match="at least 1 s"):
            to_duration(zero, "s")
    with pytest.raises(ValueError, match="duration"):
        to_duration(np.timedelta64("NaT"), "s")
    for bad in (0, -5):
        with pytest.raises(ValueError, match="window must be at least 1"):
            to_duration(bad, "s")
    for bad in (1.5, True, None):
        with pytest.raises(TypeError, match="window must be an integer"):
            to_duration(bad, "s")
    for text in ("1h", timedelta(hours=1)):
        with pytest.raises(TypeError, match="give the sketch a unit"):
            to_duration(text, None)


def test_points_in_time_are_floored_to_the_unit():
    moment = datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    assert to_tick(moment, "s") == seconds
    assert to_tick(moment, "ms") == seconds * 1000 + 999
    assert to_tick(moment, "us") == seconds * 1_000_000 + 999_999
    assert to_tick(moment.astimezone(INDIA), "s") == seconds
    assert to_tick(np.datetime64("2026-03-01T12:00:00.999999999"), "s") == seconds
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
    assert to_tick(before_1970, "s") == -1
    assert to_tick(np.datetime64("1969-12-31T23:59:59.500"), "s") == -1


def test_columns_of_time():
    expected = [0, 3600]
    moments = [datetime(1970, 1, 1, hour, tzinfo=UTC) for hour in (0, 1)]
    assert to_ticks(moments, "s").tolist() == expected
    assert to_ticks(np.array(moments, dtype=object), "s").tolist() == expected
    for resolution in ("h", "s", "ms", "us", "ns"):
        column = np.array(["1970-01-01T00", "1970-01-01T01"], f"datetime64[{resolution}]")
        assert to_ticks(column, "s").tolist() == expected
    assert to_ticks(np.array(expected, dtype=np.int32), "s").tolist() == expected
    assert to_ticks(range(3), None).tolist() == [0, 1, 2]


def test_naive_missing_and_out_of_range_times_are_refused():
    with pytest.raises(ValueError, match="at must be an aware datetime"):
        to_tick(datetime(2026, 1, 1), "s")
    with pytest.raises(ValueError, match="aware"):
        to_ticks([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)], "s")
    with pytest.raises(TypeError, match="points in time, got int"):
        to_ticks([datetime(2026, 1, 1, tzinfo=UTC), 5], "s")
    with pytest.raises(ValueError, match="NaT"):
        to_ticks(np.array(["2026-01-01", "NaT"], "datetime64[s]"), "s")
    with pytest.raises(ValueError, match=f"at must be in the years 1–9999, got {2**60} s since"):
        to_ticks(np.array([2**60], "datetime64[s]"), "us")
    with pytest.raises(TypeError, match="got datetimes; give the sketch a unit"):
        to_tick(datetime(2026, 1, 1, tzinfo=UTC), None)
    for bad in (True, None, "2026-01-01", 1.5):
        with pytest.raises(TypeError, match="at must be an integer"):
            to_tick(bad, "s")


def test_unknown_units_are_refused():
    for bad in ("m", "ns", "seconds", 1):
        with pytest.raises(ValueError, match="unit must be one of"):
            ExponentialHistogram(unit=bad)


def test_a_sketch_accepts_datetimes_everywhere():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    sketch = ExponentialHistogram(window="2 days", unit="s")
    for hour in range(48):
        sketch.update(at=start + timedelta(hours=hour))
    now = start + timedelta(hours=47, minutes=59)
    assert float(sketch.query("1 hour", now=now)) == 1
    assert float(sketch.query(timedelta(hours=12), now=now)) == 12
    assert sketch.latest == int((start + timedelta(hours=47)).timestamp())


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6)}
OF_NUMPY = {
    **{word: Fraction(1, 1000**n) for n, word in enumerate(["s", "ms", "us", "ns", "ps"])},
    **{"fs": Fraction(1, 10**15), "as": Fraction(1, 10**18)},
    **{"m": Fraction(60), "h": Fraction(3600), "D": Fraction(86_400), "W": Fraction(604_800)},
}
FIRST = {"s": -62135596800, "ms": -62135596800_000, "us": -62135596800_000_000}
LAST = {"s": 253402300799, "ms": 253402300799_999, "us": 253402300799_999_999}
steps = st.integers(-(2**63) + 1, 2**63 - 1) | st.sampled_from([-(2**63) + 1, 2**63 - 1, -1, 0, 1])


@given(
    steps,
    st.sampled_from(sorted(OF_NUMPY)),
    st.sampled_from([1, 7, 25]),
    st.sampled_from(["s", "ms", "us"]),
)
def test_datetimes_of_any_resolution_are_floored_exactly_or_refused(n, word, count, unit):
    moment = np.datetime64(n, (word, count))
    seconds = n * count * OF_NUMPY[word]
    expected = math.floor(seconds / SECONDS[unit])
    for at in (moment, np.array(moment), np.array([moment]), [moment], np.array([moment, moment])):
        if FIRST["s"] <= seconds < LAST["s"] + 1:
            assert set(np.atleast_1d(to_ticks(at, unit)).tolist()) == {expected}
        else:
            with pytest.raises(ValueError, match="at must be in the years 1–9999, got "):
                to_ticks(at, unit)


@given(st.integers(-3000, 12_000), st.sampled_from(["s", "ms", "us"]))
def test_months_and_years(year, unit):
    for moment in (np.datetime64(year - 1970, "Y"), np.datetime64((year - 1970) * 12 + 11, "M")):
        if 1 <= year <= 9999:
            month = 12 if np.datetime_data(moment.dtype)[0] == "M" else 1
            seconds = (datetime(year, month, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
            assert to_tick(moment, unit) == seconds / SECONDS[unit]
        else:
            with pytest.raises(ValueError, match="years 1–9999"):
                to_tick(moment, unit)


@pytest.mark.parametrize("word", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us"])
@pytest.mark.parametrize("n", [2**63 - 1, -(2**63) + 1, 2**62])
def test_far_datetimes_are_refused_and_not_wrapped(word, n):
    for unit in ("s", "ms", "us"):
        with pytest.raises(ValueError, match="years 1–9999"):
            to_ticks(np.array([0, n], f"datetime64[{word}]"), unit)


def test_the_ends_of_pandas_times():
    for moment in (pd.Timestamp.min, pd.Timestamp.max):
        seconds = moment.value // 10**9
        naive = pd.Series([moment])
        for at in (
            moment.tz_localize("UTC"),
            [moment.tz_localize("UTC")],
            np.array([moment.to_datetime64()]),
            naive,
            pa.array(naive),
        ):
            assert np.atleast_1d(to_ticks(at, "s")).tolist() == [seconds]
            assert np.atleast_1d(to_ticks(at, "us")).tolist() == [moment.value // 10**3]


def test_far_columns_with_a_zone_are_refused_and_not_wrapped():
    far = pd.Series(np.array([0, 2**43], "datetime64[s]")).dt.tz_localize("UTC")
    assert far.dt.year[1] > 250_000
    for at in (far, pd.DatetimeIndex(far), far.array, list(far), pa.array(far)):
        with pytest.raises(ValueError, match=f"years 1–9999, got {2**43} s since 1970"):
            to_ticks(at, "us")
    with pytest.raises(ValueError, match="years 1–9999"):
        to_tick(far[1], "s")


def test_resolutions_may_differ_within_a_list():
    moments = [
        np.datetime64(5, "ns"),
        np.datetime64("9999-12-31T23:59:59", "s"),
        np.datetime64("0001"),
    ]
    expected = [0, LAST["s"], FIRST["s"]]
    assert to_ticks(moments, "s").tolist() == expected
    assert to_ticks(np.array(moments, dtype=object), "s").tolist() == expected
    assert to_ticks([moments[0], EPOCH, pd.Timestamp("2262-04-11", tz="UTC")], "s").tolist() == [
        0,
        0,
        9223286400,
    ]


@pytest.mark.parametrize(
    "missing", [pd.NaT, np.datetime64("NaT"), np.array("NaT", "datetime64[ns]")]
)
def test_missing_times_are_refused(missing):
    with pytest.raises(ValueError, match="at must be points in time, got NaT"):
        to_tick(missing, "s")
    with pytest.raises(ValueError, match="at must be points in time, got NaT"):
        to_ticks([EPOCH, np.datetime64("NaT") if isinstance(missing, np.ndarray) else missing], "s")


def as_columns(n):
    """Return an integer in all containers that may hold integers."""
    array = np.array([0, n])
    yield from (n, np.int64(n), np.array(n), [0, n], array, np.array([0, n], dtype=object))
    yield from (pd.Series(array), pd.Series(array, dtype="Int64"), pd.Index(array), pa.array(array))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_integers_with_a_unit_are_in_the_years_1_to_9999(unit):
    for tick in (FIRST[unit], LAST[unit]):
        for at in as_columns(tick):
            assert np.atleast_1d(to_ticks(at, unit)).tolist()[-1] == tick
        assert to_tick(tick, unit) == tick
    assert to_tick(datetime.min.replace(tzinfo=UTC), unit) == FIRST[unit]
    assert to_tick(datetime.max.replace(tzinfo=UTC), unit) == LAST[unit]
    for tick in (FIRST[unit] - 1, LAST[unit] + 1, 2**63 - 1, -(2**63) + 1):
        for at in as_columns(tick):
            with pytest.raises(
                ValueError, match=f"at must be in the years 1–9999 in unit '{unit}', got {tick}"
            ):
                to_ticks(at, unit)
        with pytest.raises(
            ValueError, match=f"now must be in the years 1–9999 in unit '{unit}', got {tick}"
        ):
            to_tick(tick, unit, "now")


@pytest.mark.parametrize(
    ("tick", "unit", "guess"),
    [
        (1763452800000, "s", "that would be the year 2025 in milliseconds; use unit='ms'"),
        (1763452800000000, "s", "that would be the year 2025 in microseconds; use unit='us'"),
        (1763452800000000, "ms", "that would be the year 2025 in microseconds; use unit='us'"),
        (1763452800 * 10**9, "us", "year 2025 in nanoseconds; divide by 1000 and use unit='us'"),
        (1763452800 * 10**9, "s", "year 2025 in nanoseconds; divide by 1000 and use unit='us'"),
        (-1763452800000, "s", "that would be the year 1914 in milliseconds; use unit='ms'"),
    ],
)
def test_errors_name_the_unit_that_was_probably_meant(tick, unit, guess):
    with pytest.raises(ValueError, match=guess):
        to_tick(tick, unit)
    with pytest.raises(ValueError, match=guess):
        to_ticks([0, tick], unit)


def test_without_a_unit_ticks_are_any_integers():
    for tick in (-(2**63) + 1, 2**63 - 1):
        assert to_tick(tick, None) == tick
        assert to_ticks([0, tick], None).tolist() == [0, tick]
    assert to_duration(2**63 - 1, "s") == 2**63 - 1


def test_an_array_of_one_datetime_equals_the_datetime():
    moment = np.datetime64("2026-03-01T12:00:00", "ns")
    for at in (
        moment,
        np.array(moment),
        np.array(datetime(2026, 3, 1, 12, tzinfo=UTC), dtype=object),
    ):
        assert to_tick(at, "s") == int(to_ticks(at, "s")) == 1772366400


def test_long_durations_of_pandas():
    years = pd.Timedelta(np.timedelta64(2**45, "s"))
    assert to_duration(years, "s") == 2**45
    with pytest.raises(ValueError, match="whole number of us"):
        to_duration(pd.Timedelta(1, "ns"), "us")
    assert to_duration(pd.Timedelta(3000, "ns"), "us") == 3


@pytest.mark.parametrize("cls", [ExponentialHistogram, RandomizedWave, NthRecentWave])
def test_sketches_refuse_ticks_of_another_unit(cls):
    item = {"item": 7} if cls is RandomizedWave else {}
    sketch = cls(window="1 day", unit="s")
    sketch.update(at=1763452800, **item)
    before = sketch.to_bytes()
    for at in (1763452800_000, 253402300800):
        with pytest.raises(ValueError, match="use unit='ms'"):
            sketch.update(at=at, **item)
        with pytest.raises(ValueError, match="use unit='ms'"):
            sketch.update_many(at=[at], **item)
        with pytest.raises(ValueError, match=r"now must be in the years .* use unit='ms'"):
            sketch.query(now=at)
    assert sketch.to_bytes() == before


@pytest.mark.parametrize("latest", [2**63 - 1, -(2**63) + 1])
def test_sketches_of_times_that_are_now_refused_still_answer(latest, monkeypatch):
    far = ExponentialHistogram(window=100, unit="s")
    monkeypatch.setattr(
        "recency.counters.arrival.to_tick", lambda at, unit: at
    )  # as a release before did
    far.update(3, at=latest)
    back = loads(far.to_bytes())
    assert back.latest == latest
    assert back.query().value == back.query(5).value == 3
    assert repr(back)
    assert back.merge(far).query().value == 6
