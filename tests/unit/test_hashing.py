import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency.core.hashing import hash_integers, hash_items, hash_rows, xxh64
from recency.core.murmur import low_halves

# From another implementation of XXH64 (xxhash 3, hashed twice as Spark does): value, seed, hash.
REFERENCE = [
    (0, 0, 9246812528373995390),
    (1, 0, 8281773146650252936),
    (-1, 0, 15024014856877386713),
    (2**63 - 1, 0, 8951635521562255894),
    (-(2**63), 0, 11937101429452981021),
    (123456789, 7, 284882570246553879),
    (5, -3, 5761644133705005533),
    (42, 2**40, 5366725710976035328),
]


@pytest.mark.parametrize(("value", "seed", "expected"), REFERENCE)
def test_integers_hash_as_xxh64_twice(value, seed, expected):
    assert hash_integers(np.array([value]), seed).tolist() == [expected]
    assert hash_items(value, seed).tolist() == [expected]


def test_integers_of_any_type_are_the_same_item():
    expected = hash_items(5, 1)
    for five in (np.int32(5), np.uint8(5), np.array([5], dtype=np.int16), [5], range(5, 6)):
        assert hash_items(five, 1).tolist() == expected.tolist()


def test_kinds_are_different_items():
    kinds = [hash_items(item, 0)[0] for item in (5, "5", b"5", 0, "", b"")]
    assert len(set(kinds)) == 6


def test_text_is_the_low_half_of_murmur_mixed_with_the_seed():
    low = mmh3.hash128("straße", 1, True, False) & (2**64 - 1)
    expected = hash_integers(np.array([low], dtype=np.uint64).view(np.int64), 9)
    assert hash_items("straße", 9).tolist() == expected.tolist()


def test_columns_hash_like_their_elements_repeated_or_not():
    mixed = ["a", "b", 3, b"c", "a", np.int64(3), "ü"]
    expected = [int(hash_items(item, 4)[0]) for item in mixed]
    assert hash_items(mixed, 4).tolist() == expected
    assert hash_items(np.array(mixed, dtype=object), 4).tolist() == expected
    assert hash_items(mixed * 10, 4).tolist() == expected * 10
    for kind in ("U", "S", object):
        column = np.array(["aa", "b", "aa"], dtype=kind)
        assert hash_items(column, 4).tolist() == [int(hash_items(x, 4)[0]) for x in column.tolist()]
    assert hash_items([], 0).size == 0


@pytest.mark.parametrize(
    "bad", [None, True, 1.5, {"a"}, object(), [None], [1, 2.5], [True], np.array([1.5])]
)
def test_other_kinds_are_refused_by_name(bad):
    with pytest.raises(TypeError, match="item must be integers, strings or bytes, got"):
        hash_items(bad, 0)


def test_integers_beyond_int64_are_refused():
    for bad in (2**63, [1, 2**63], np.array([2**63], dtype=np.uint64)):
        with pytest.raises(ValueError, match="item must be in the range of int64"):
            hash_items(bad, 0)


def test_rows_that_differ_in_one_column_have_different_hashes():
    one = np.arange(1000)
    zero = np.zeros(1000, dtype=np.int64)
    hashes = np.concatenate(
        [hash_rows(0, *columns) for columns in [(one, zero, zero), (zero, one, zero)]]
        + [hash_rows(0, zero, zero, one), hash_rows(1, one, zero, zero)]
    )
    assert np.unique(hashes).size == 4 * 1000 - 2  # (0, 0, 0) under seed 0 is there three times


def test_hashing_in_blocks_has_no_effect():
    x = np.arange(20_000).astype(np.uint64)
    assert xxh64(x, 3).tolist() == [int(xxh64(x[i : i + 1], 3)[0]) for i in range(20_000)]


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=70) | st.text(max_size=30).map(str.encode), max_size=40))
def test_strings_in_a_buffer_hash_like_one_by_one(strings):
    bounds = np.cumsum([0, *map(len, strings)])
    expected = [mmh3.hash128(s, 77, True, False) & (2**64 - 1) for s in strings]
    assert low_halves(b"".join(strings), bounds, 77).tolist() == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_arrow_columns_hash_like_lists(kind):
    texts = ["", "a", "ß" * 20, "x" * 15, "y" * 16, "z" * 17, "\0", "long " * 60] * 2500
    items = texts if "string" in str(kind) else [text.encode() for text in texts]
    column = pa.array(items, kind)
    assert hash_items(column, 3).tolist() == hash_items(items, 3).tolist()
    part = column.slice(5, 9000)
    assert hash_items(part, 3).tolist() == hash_items(items[5:9005], 3).tolist()
    assert hash_items(column.slice(0, 0), 3).tolist() == []


def test_arrow_columns_with_nulls_are_refused():
    with pytest.raises(TypeError, match="NoneType"):
        hash_items(pa.array(["a", None]), 0)
