"""Keys of a bank are the same whichever container they come in."""

import math
import random
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recency import Bank, ExponentialHistogram

NAN = float("nan")
CLOCK = datetime(2026, 3, 1, 12, 0, 0, 250_000)
INSTANT = CLOCK.replace(tzinfo=UTC)
TOKYO = INSTANT.astimezone(ZoneInfo("Asia/Tokyo"))
DAY = date(2026, 3, 1)


def counted(*columns):
    """Return the keys of a bank after these columns, in order, and the rows of each.

    Keys are compared as text, which distinguishes types, and where NaN equals NaN.
    """
    bank = Bank(ExponentialHistogram())
    for column in columns:
        bank.update_many(column, at=1)
    return [(repr(key), sketch.query().value) for key, sketch in bank.items()]


def occurrences(keys):
    written = list(map(repr, keys))
    return [(key, written.count(key)) for key in dict.fromkeys(written)]


def datetimes(values, unit, **zone):
    """Return times of some resolution in all containers; None is a missing value."""
    array = np.array([np.datetime64("NaT") if v is None else v for v in values], f"M8[{unit}]")
    yield array
    yield list(array)
    yield pa.array(array)
    yield pa.array(array).dictionary_encode()
    if unit in ("s", "ms", "us", "ns"):
        yield pd.Series(array)
        yield pd.Index(array)
        yield pd.Series(array).astype("category")
        yield pd.Series(pd.arrays.ArrowExtensionArray(pa.array(array)))
        yield list(pd.Series(array))


CASES = {
    "integers": (
        [2**53, 2**53 + 1, 2**53],
        [
            [2**53, 2**53 + 1, 2**53],
            np.array([2**53, 2**53 + 1, 2**53]),
            np.array([2**53, 2**53 + 1, 2**53], dtype=object),
            np.array([2**53, 2**53 + 1, 2**53], dtype=">u8"),
            pd.Series([2**53, 2**53 + 1, 2**53]),
            pd.Series([2**53, 2**53 + 1, 2**53], dtype="Int64"),
            pd.Series([2**53, 2**53 + 1, 2**53], dtype="int64[pyarrow]"),
            pd.Series([2**53, 2**53 + 1, 2**53], dtype="category"),
            pd.Index([2**53, 2**53 + 1, 2**53]),
            pd.array([2**53, 2**53 + 1, 2**53]),
            pa.array([2**53, 2**53 + 1, 2**53]),
            pa.array([2**53, 2**53 + 1, 2**53]).dictionary_encode(),
            pa.chunked_array([[2**53], [2**53 + 1, 2**53]]),
            list(pa.array([2**53, 2**53 + 1, 2**53])),
        ],
    ),
    "integers with a null": (
        [2**53 + 1, None, 2**53],
        [
            [2**53 + 1, None, 2**53],
            [2**53 + 1, pd.NA, 2**53],
            np.array([2**53 + 1, None, 2**53], dtype=object),
            np.ma.array([2**53 + 1, 7, 2**53], mask=[False, True, False]),
            pd.Series([2**53 + 1, None, 2**53], dtype="Int64"),
            pd.Index(pd.array([2**53 + 1, None, 2**53], dtype="Int64")),
            pd.Series([2**53 + 1, None, 2**53], dtype="int64[pyarrow]"),
            pd.Series([2**53 + 1, None, 2**53], dtype="Int64").astype("category"),
            pd.Series([2**53 + 1, None, 2**53], dtype=object),
            pa.array([2**53 + 1, None, 2**53]),
            pa.array([2**53 + 1, None, 2**53]).dictionary_encode(),
            pa.chunked_array([[2**53 + 1], [None, 2**53]]),
            list(pa.array([2**53 + 1, None, 2**53])),
        ],
    ),
    "large unsigned integers": (
        [2**64 - 1, 2**63, 0],
        [
            [2**64 - 1, 2**63, 0],
            np.array([2**64 - 1, 2**63, 0], dtype=np.uint64),
            pd.Series([2**64 - 1, 2**63, 0], dtype="uint64"),
            pd.Series([2**64 - 1, 2**63, 0], dtype="UInt64"),
            pa.array([2**64 - 1, 2**63, 0], pa.uint64()),
        ],
    ),
    "integers beyond all arrays": ([2**70, -1], [[2**70, -1], np.array([2**70, -1], dtype=object)]),
    "NaN": (
        [NAN, 1.5, NAN],
        [
            [NAN, 1.5, float("nan")],
            [np.nan, 1.5, np.float32("nan")],
            np.array([np.nan, 1.5, -np.nan]),
            np.array([float("nan"), 1.5, float("nan")], dtype=object),
            pd.Series([np.nan, 1.5, None]),
            pd.Index([np.nan, 1.5, np.nan]),
            pa.array([float("nan"), 1.5, float("nan")]),
            pa.array([float("nan"), 1.5, float("nan")]).dictionary_encode(),
            pd.Series(pd.arrays.ArrowExtensionArray(pa.array([NAN, 1.5, NAN]))),
        ],
    ),
    "NaN and null": (
        [NAN, None, 0.5],
        [
            [float("nan"), None, 0.5],
            np.array([float("nan"), None, 0.5], dtype=object),
            pa.array([float("nan"), None, 0.5]),
            pa.chunked_array([[float("nan")], [None, 0.5]]),
            pd.Series(pd.arrays.ArrowExtensionArray(pa.array([NAN, None, 0.5]))),
        ],
    ),
    "strings": (
        ["b", "a", None, "b"],
        [
            ["b", "a", None, "b"],
            [np.str_("b"), "a", pd.NA, "b"],
            np.array(["b", "a", None, "b"], dtype=object),
            pd.Series(["b", "a", None, "b"]),
            pd.Series(["b", "a", None, "b"], dtype="string"),
            pd.Series(["b", "a", None, "b"], dtype="string[pyarrow]"),
            pd.Series(["b", "a", None, "b"], dtype="category"),
            pd.CategoricalIndex(["b", "a", None, "b"]),
            pa.array(["b", "a", None, "b"]),
            pa.array(["b", "a", None, "b"], pa.large_string()),
            pa.array(["b", "a", None, "b"], pa.string_view()),
            pa.DictionaryArray.from_arrays(pa.array([2, 0, 3, 1]), pa.array(["a", "b", "b", None])),
            pa.array(["b", "a", None, "b"]).dictionary_encode(),
            pa.chunked_array([pa.array([x]).cast(pa.string()) for x in ["b", "a", None, "b"]]),
        ],
    ),
    "bytes": (
        [b"x", b"\xff"],
        [[b"x", b"\xff"], np.array([b"x", b"\xff"]), pa.array([b"x", b"\xff"])],
    ),
    "booleans": (
        [True, False],
        [
            [True, False],
            np.array([True, False]),
            pd.Series([True, False], dtype="boolean"),
            pa.array([True, False]),
        ],
    ),
    "decimals": (
        [Decimal("1.50"), None, Decimal("2.25")],
        [
            [Decimal("1.50"), None, Decimal("2.25")],
            pd.Series([Decimal("1.50"), None, Decimal("2.25")]),
            pa.array([Decimal("1.50"), None, Decimal("2.25")]),
        ],
    ),
    "clocks": (
        [CLOCK, None, datetime(1, 1, 1)],
        [
            [CLOCK, None, datetime(1, 1, 1)],
            [CLOCK, pd.NaT, datetime(1, 1, 1)],
            [pd.Timestamp(CLOCK), np.datetime64("NaT"), np.datetime64("0001-01-01")],
            np.array([CLOCK, None, datetime(1, 1, 1)], dtype=object),
            *datetimes([CLOCK, None, datetime(1, 1, 1)], "ms"),
            *datetimes([CLOCK, None, datetime(1, 1, 1)], "us"),
        ],
    ),
    "clocks of nanosecond columns": (
        [CLOCK, None, datetime(1970, 1, 1)],
        [*datetimes([CLOCK, None, datetime(1970, 1, 1)], "ns")],
    ),
    "dates": (
        [datetime(2026, 3, 1), None, datetime(1, 1, 1)],
        [
            [DAY, None, date(1, 1, 1)],
            pd.Series([DAY, None, date(1, 1, 1)]),
            np.array(["2026-03-01", "NaT", "0001-01-01"], "M8[D]"),
            np.array(["2026-03-01", "NaT", "0001-01-01"], "M8[s]"),
            pa.array([DAY, None, date(1, 1, 1)]),
            pa.array([DAY, None, date(1, 1, 1)], pa.date64()),
            pd.Series([DAY, None, date(1, 1, 1)], dtype="date32[day][pyarrow]"),
        ],
    ),
    "instants": (
        [INSTANT, None, datetime(1970, 1, 1, tzinfo=UTC)],
        [
            column
            for zone in ("UTC", "Asia/Tokyo", "America/New_York")
            for series in [
                pd.Series([INSTANT, None, pd.Timestamp(0, tz="UTC")]).dt.tz_convert(zone)
            ]
            for column in [
                series,
                series.dt.as_unit("us"),
                pd.DatetimeIndex(series),
                series.array,
                list(series),
                np.array(series),
                series.astype("category"),
                series.astype(f"timestamp[us, tz={zone}][pyarrow]"),
                pa.array(series),
                pa.array(series).cast(pa.timestamp("ms", zone)),
                pa.array(series).dictionary_encode(),
                list(pa.array(series)),
            ]
        ],
    ),
    "durations": (
        [timedelta(days=1), None, timedelta(microseconds=-5)],
        [
            [timedelta(days=1), None, timedelta(microseconds=-5)],
            [pd.Timedelta("1 day"), pd.NaT, np.timedelta64(-5, "us")],
            np.array([86_400 * 10**6, "NaT", -5], "m8[us]"),
            np.array([86_400 * 10**9, "NaT", -5000], "m8[ns]"),
            pd.Series(np.array([86_400 * 10**9, "NaT", -5000], "m8[ns]")),
            pa.array(np.array([86_400 * 10**9, "NaT", -5000], "m8[ns]")),
            pa.array([timedelta(days=1), None, timedelta(microseconds=-5)]),
        ],
    ),
}
COLUMNS = [
    pytest.param(keys, column, id=f"{name}-{i}-{type(column).__name__}")
    for name, (keys, columns) in CASES.items()
    for i, column in enumerate(columns)
]


@pytest.mark.parametrize(("keys", "column"), COLUMNS)
def test_a_key_is_the_same_in_every_container(keys, column):
    assert counted(column) == occurrences(keys)
    assert counted(keys, column, keys) == occurrences(keys * 3)


SPELLINGS = [
    [7, 7.0, np.int8(7), np.uint64(7), np.float32(7), np.array(7), pa.scalar(7), Decimal(7)],
    [2**64 - 1, np.uint64(2**64 - 1), pa.scalar(2**64 - 1, pa.uint64())],
    [True, np.bool_(True), 1, pa.scalar(True)],
    ["a", np.str_("a"), np.array("a"), pa.scalar("a")],
    [b"a", np.bytes_(b"a"), pa.scalar(b"a")],
    [NAN, float("nan"), math.nan, np.nan, np.float32("nan"), np.array(np.nan), pa.scalar(NAN)],
    [Decimal("NaN"), NAN],
    [None, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT", "s"), pa.scalar(None)],
    [
        CLOCK,
        pd.Timestamp(CLOCK),
        pd.Timestamp(CLOCK).as_unit("ms"),
        *(np.datetime64(CLOCK, unit) for unit in ("ms", "us", "ns")),
        np.array(np.datetime64(CLOCK, "ns")),
        np.datetime64(CLOCK).astype("M8[250ms]"),
        pa.scalar(CLOCK),
        pa.scalar(CLOCK, pa.timestamp("ns")),
    ],
    [
        INSTANT,
        TOKYO,
        INSTANT.astimezone(timezone(timedelta(hours=-3))),
        pd.Timestamp(INSTANT),
        pd.Timestamp(TOKYO),
        pa.scalar(INSTANT),
        pa.scalar(TOKYO, pa.timestamp("ns", "Asia/Tokyo")),
    ],
    [
        DAY,
        datetime(2026, 3, 1),
        pd.Timestamp(DAY),
        *(np.datetime64("2026-03-01", unit) for unit in ("D", "h", "m", "s", "ms", "us", "ns")),
        np.datetime64("2026-03", "M"),
        pa.scalar(DAY),
        pa.scalar(DAY, pa.date64()),
    ],
    [timedelta(hours=36), pd.Timedelta("36h"), np.timedelta64(36, "h"), pa.scalar(timedelta(1.5))],
    [np.timedelta64(2, "Y"), np.timedelta64(24, "M"), np.timedelta64(8, "3M")],
    # Python has no values for these.
    [
        pd.Timestamp(5),
        np.datetime64(5, "ns"),
        np.datetime64(5000, "ps"),
        pa.scalar(5, pa.timestamp("ns")),
    ],
    [
        pd.Timestamp(5, tz="UTC"),
        pd.Timestamp(5, tz="Asia/Tokyo"),
        pa.scalar(5, pa.timestamp("ns", "UTC")),
    ],
    [np.datetime64(10**9, "Y"), np.datetime64(12 * 10**9, "M"), np.datetime64(10**8, "10Y")],
    [
        np.datetime64("50000-01-01"),
        np.datetime64("50000-01-01", "us"),
        np.datetime64(48_030, "Y"),
        pa.scalar(int(np.datetime64("50000-01-01", "s").astype(int)), pa.timestamp("s")),
        pa.array([int(np.datetime64("50000-01-01", "D").astype(int))], pa.int32()).cast("date32")[
            0
        ],
    ],
    [
        pd.Timedelta(5),
        np.timedelta64(5, "ns"),
        np.timedelta64(5000, "ps"),
        pa.scalar(5, pa.duration("ns")),
    ],
    [np.timedelta64(2**60, "s"), np.timedelta64(2**60 // 60 * 60 + 16, "s")],
    [("a", NAN), ("a", np.float64("nan")), (np.str_("a"), float("nan"))],
    [(1, None), (np.int8(1), pd.NaT), (1, pd.NA), (1, pa.scalar(None))],
    [(CLOCK, 2), (np.datetime64(CLOCK, "ns"), 2), (pd.Timestamp(CLOCK), np.int64(2))],
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda spellings: repr(spellings[0]))
def test_a_key_is_found_by_any_value_that_means_it(spellings):
    for key in spellings:
        for column in (key, [key], np.array([key, None], dtype=object)[:1]):
            bank = Bank(ExponentialHistogram())
            bank.update_many(column, at=1)
            assert [each in bank for each in spellings] == [True] * len(spellings)
            assert [bank[each].query().value for each in spellings] == [1] * len(spellings)
            assert len(bank) == 1
            assert all(shown in bank for shown in bank)  # and by what the bank calls it
    bank = Bank(ExponentialHistogram())
    bank.update_many(spellings, at=1)
    assert [sketch.query().value for _, sketch in bank.items()] == [len(spellings)]


def test_keys_that_mean_different_things_stay_apart():
    different = [group[0] for group in SPELLINGS if Decimal("NaN") is not group[0]]
    different = [key for key in different if not isinstance(key, Decimal)]
    different += [
        0,
        5,
        "7",
        b"7",
        "nan",
        "None",
        CLOCK + timedelta(microseconds=1),
        2**53,
        2**53 + 1,
    ]
    different += [datetime(2026, 3, 1, tzinfo=UTC), np.timedelta64(5, "s"), np.timedelta64(5, "ms")]
    different += [pd.Timestamp(6), pd.Timestamp(6, tz="UTC"), ("a", None), ("a", 0.5)]
    bank = Bank(ExponentialHistogram())
    bank.update_many(different, at=1)
    assert len(bank) == len(different)
    assert [bank[key].query().value for key in different] == [1] * len(different)


def test_named_tuples_keep_their_class():
    Place = namedtuple("Place", "x y")
    bank = Bank(ExponentialHistogram())
    bank.update_many([Place(1, 2), (1, 2), Place(np.int64(1), 2)], at=1)
    assert list(bank) == [(1, 2)]
    assert isinstance(next(iter(bank)), Place)


def test_rows_of_structured_arrays_are_tuples():
    rows = np.array([(1, "2026-03-01"), (2, "NaT")], dtype=[("n", "i4"), ("day", "M8[ns]")])
    assert counted(rows) == occurrences([(1, datetime(2026, 3, 1)), (2, None)])


def test_empty_columns_have_no_keys():
    for column in (
        [],
        np.array([]),
        np.array([], dtype="M8[s]"),
        pd.Series([], dtype="Int64"),
        pd.Series([], dtype="category"),
        pa.array([], pa.int64()),
        pa.chunked_array([], pa.string()),
        pa.nulls(0),
    ):
        assert counted(column) == []
    assert counted(pa.nulls(2)) == [("None", 2)]


def test_keys_are_one_dimensional():
    with pytest.raises(ValueError, match="keys must be one-dimensional, got 2 dimensions"):
        counted(np.zeros((3, 2), dtype=int))


value = st.sampled_from([None, NAN, 0.0, -0.0, 1.5, math.inf, 2.0**53])


@given(st.lists(st.lists(value, max_size=12), max_size=4))
def test_floats_are_numbered_as_they_come_in_any_container(batches):
    """Also if batches of one stream come in different containers."""
    expected = counted(*batches)
    as_arrow = [pa.array(batch, pa.float64()) for batch in batches]
    as_pandas = [pd.Series(pd.arrays.ArrowExtensionArray(each)) for each in as_arrow]
    as_objects = [np.array(batch, dtype=object) for batch in batches]
    for columns in (as_arrow, as_pandas, as_objects):
        assert counted(*columns) == expected
    rng = random.Random(1)
    mixed = [
        rng.choice(each) for each in zip(batches, as_arrow, as_pandas, as_objects, strict=True)
    ]
    assert counted(*mixed) == expected
    without = [[x for x in batch if x is not None] for batch in batches]
    assert counted(*map(np.array, without)) == counted(*without)


@given(st.lists(st.integers(-3, 3) | st.integers(2**53, 2**53 + 3), max_size=40))
def test_integers_are_numbered_as_they_come_in_any_container(keys):
    expected = occurrences(keys)
    columns = [np.array(keys, dtype=np.int64), pd.Series(keys, dtype="Int64")]
    columns += [pa.array(keys, pa.int64()), pd.Series(keys, dtype="int64").astype("category")]
    for column in columns:
        assert counted(column) == expected


def test_strings_do_not_end_at_nul():
    words = ["a", "a\0", "a\0b", "a"]
    for storage in ("python", "pyarrow"):
        bank = Bank(ExponentialHistogram(10))
        bank.update_many(pd.array(words, dtype=pd.StringDtype(storage)), at=1)
        assert {key: bank[key].query().value for key in bank} == {"a": 2, "a\0": 1, "a\0b": 1}
