from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from recency import ExponentialHistogram
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
    with pytest.raises(ValueError, match="range of int64 in unit 'us'"):
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


def test_a_sketch_speaks_datetimes_end_to_end():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    sketch = ExponentialHistogram(window="2 days", unit="s")
    for hour in range(48):
        sketch.update(at=start + timedelta(hours=hour))
    now = start + timedelta(hours=47, minutes=59)
    assert float(sketch.query("1 hour", now=now)) == 1
    assert float(sketch.query(timedelta(hours=12), now=now)) == 12
    assert sketch.latest == int((start + timedelta(hours=47)).timestamp())
