"""Columns as they come from pandas and Arrow."""

import pandas as pd
import pyarrow as pa
import pytest

from recency import ExponentialHistogram, QuantileWave, RandomizedWave, SumWave

MOMENTS = pd.to_datetime(["2026-03-01 10:00", "2026-03-01 10:30", "2026-03-01 11:00"])


def counted(at):
    sketch = ExponentialHistogram(window="1 day", unit="s")
    sketch.update_many(at=at)
    return [float(sketch.query(w)) for w in ("29 minutes", "31 minutes", "1 day")]


@pytest.mark.parametrize(
    "at",
    [
        pd.Series(MOMENTS),
        pd.Series(MOMENTS).dt.tz_localize("UTC"),
        pd.Series(MOMENTS).dt.tz_localize("America/New_York"),
        MOMENTS.tz_localize("Asia/Kolkata"),
        pa.array(MOMENTS),
        pa.chunked_array([pa.array(MOMENTS[:1]), pa.array(MOMENTS[1:])]),
        pa.array(MOMENTS.tz_localize("UTC")),
        list(MOMENTS.tz_localize("UTC")),
    ],
    ids=lambda at: f"{type(at).__name__}-{getattr(at, 'dtype', getattr(at, 'type', ''))}",
)
def test_time_columns(at):
    assert counted(at) == [1, 2, 3]


def test_time_zones_are_points_in_time():
    sketch = ExponentialHistogram(unit="s")
    sketch.update_many(at=pd.Series(MOMENTS).dt.tz_localize("America/New_York"))
    assert sketch.latest == int(pd.Timestamp("2026-03-01 16:00", tz="UTC").timestamp())


def test_number_and_item_columns():
    for column in (pd.Series([1, 2, 2]), pd.Series([1, 2, 2], dtype="Int64"), pa.array([1, 2, 2])):
        wave, total, middle = RandomizedWave(), SumWave(), QuantileWave()
        for sketch in (wave, total, middle):
            sketch.update_many(column, at=range(3))
        assert (float(wave.query()), float(total.query()), float(middle.query())) == (2, 5, 2)
    for column in (
        pd.Series(["a", "b", "b"]),
        pa.array(["a", "b", "b"]),
        pd.Index(["a", "b", "b"]),
    ):
        wave = RandomizedWave()
        wave.update_many(column, at=range(3))
        assert float(wave.query()) == 2
        assert wave == built_from(["a", "b", "b"])


def built_from(items):
    wave = RandomizedWave()
    wave.update_many(items, at=range(len(items)))
    return wave


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, None, 3]),
        pd.Series([1, None, 3], dtype="Int64"),
        pa.array([1, None, 3]),
    ],
)
def test_missing_values_are_refused(column):
    for sketch in (ExponentialHistogram(), RandomizedWave(), SumWave()):
        with pytest.raises((TypeError, ValueError)):
            sketch.update_many(column, at=range(3))
        assert sketch.is_empty
    with pytest.raises((TypeError, ValueError)):
        RandomizedWave().update_many(pd.Series(["a", None]), at=range(2))
    with pytest.raises(ValueError, match="NaT"):
        counted(pd.Series([pd.NaT, MOMENTS[0]]))
