import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recency
from recency.core import codec
from recency.core.codec import RecordReader, RecordWriter
from recency.errors import CorruptSketchError
from recency.serialization import FAMILIES, _classes, foreign_classes

uint64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)


@given(st.lists(uint64))
def test_varints_round_trip(values):
    data, sizes = codec.encode_varints(np.array(values, dtype=np.uint64))
    assert sizes.sum() == data.size
    assert sizes.tolist() == [max(1, -(-v.bit_length() // 7)) for v in values]
    back, ends = codec.decode_varints(data, "test")
    assert back.tolist() == values
    assert ends.tolist() == np.cumsum(sizes).tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_zigzag_round_trips_and_keeps_small_numbers_small(values):
    x = np.array(values, dtype=np.int64)
    assert codec.unzigzag(codec.zigzag(x)).tolist() == values
    assert codec.zigzag(np.array([0, -1, 1, -2])).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "data",
    [b"\x80", b"\x80\x00", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01", b"\x01\xff"],
    ids=["unfinished", "overlong", "65 bits", "11 bytes", "unfinished tail"],
)
def test_varints_that_are_not_minimal_or_too_long_are_corrupt(data):
    with pytest.raises(CorruptSketchError, match="corrupt test:"):
        codec.decode_varints(np.frombuffer(data, dtype=np.uint8), "test")


@given(st.lists(st.lists(uint64, max_size=5), min_size=1, max_size=8))
def test_records_round_trip(ragged):
    counts = np.array([len(row) for row in ragged])
    flat = np.array([v for row in ragged for v in row], dtype=np.uint64)
    writer = RecordWriter(len(ragged))
    writer.scalar(counts.astype(np.uint64))
    writer.ragged(flat, counts)
    numbers, sizes = writer.numbers()
    assert sizes.tolist() == (counts + 1).tolist()
    reader = RecordReader("test", numbers, sizes)
    assert reader.integer().tolist() == counts.tolist()
    assert reader.ragged(counts).tolist() == flat.tolist()
    reader.finish(writer)
    with pytest.raises(CorruptSketchError, match="shorter"):
        reader.scalar()
    with pytest.raises(CorruptSketchError, match="longer"):
        RecordReader("test", numbers, sizes).finish(writer)
    other = RecordWriter(len(ragged))
    other.scalar(counts.astype(np.uint64) + np.uint64(1))
    other.ragged(flat, counts)
    with pytest.raises(CorruptSketchError, match="canonical"):
        reader.finish(other)


def test_counts_are_checked_before_memory_is_allocated():
    reader = RecordReader("test", np.array([1, 2], dtype=np.uint64), np.array([2]))
    with pytest.raises(CorruptSketchError, match="shorter"):
        reader.ragged(np.array([2**62]))
    with pytest.raises(CorruptSketchError, match="above 1"):
        reader.integers(np.array([2]), most=1)


@given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text(max_size=40)
    )
)
def test_configurations_round_trip_with_their_types(values):
    back = codec.decode_config(codec.encode_config(values), "test")
    assert back == values
    assert [type(v) for v in back] == [type(v) for v in values]


@pytest.mark.parametrize("data", [b"\x09", b"\x01\x00", b"\x03\x05ab", b"\x03", b"\x03\x01\xff"])
def test_malformed_configurations_are_corrupt(data):
    with pytest.raises(CorruptSketchError, match="corrupt test:"):
        codec.decode_config(data, "test")


@pytest.mark.parametrize("before", [[], [recency.SumWave().to_bytes()]])
def test_the_error_of_a_damaged_frame_does_not_depend_on_frames_before_it(before):
    damaged = recency.SumWave().to_bytes()[:-1] + b"?"
    with pytest.raises(CorruptSketchError, match="corrupt sketch: checksum mismatch"):
        recency.decode_many([*before, damaged])


def test_every_family_has_one_class():
    ours = {family: cls for family, cls in _classes.items() if cls not in foreign_classes()}
    assert {family: cls.__name__ for family, cls in ours.items()} == FAMILIES
    assert all(hasattr(recency, name) for name in FAMILIES.values())
