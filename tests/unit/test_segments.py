import struct
import zlib

import numpy as np
import pytest

from recency import CorruptSketchError, DeterministicWave, ExponentialHistogram, loads
from recency.core.arrays import INT64_MAX, INT64_MIN, offsets
from recency.core.segments import ages_of, running_sums, segment_sums, times_of

STARTS = offsets(np.array([0, 3, 0, 1, 2, 0]))


def test_sums_equal_those_of_python_or_are_refused():
    rows = [[], [2**63, 2**62, 2**62 - 1], [], [2**64 - 1], [2**32, 2**32 - 1], []]
    x = np.array([number for row in rows for number in row], dtype=np.uint64)
    assert segment_sums(x, STARTS, "test").tolist() == [sum(row) for row in rows]
    assert running_sums(x, STARTS).tolist() == [
        sum(row[: i + 1]) for row in rows for i in range(len(row))
    ]
    x[2] += np.uint64(1)  # 2⁶⁴
    with pytest.raises(CorruptSketchError, match="corrupt test: numbers out of range"):
        segment_sums(x, STARTS, "test")


def test_times_come_back_from_their_ages():
    times = np.array([INT64_MIN + 1, 0, INT64_MAX, INT64_MIN + 1, 5, 7])
    latest = np.array([3, INT64_MAX, INT64_MIN + 1, INT64_MAX, 7, 0])
    ages = ages_of(times, STARTS, latest)
    assert ages.tolist() == [2**63 - 1, 2**63 - 1, 0, 2**64 - 2, 2, 0]
    assert times_of(ages, STARTS, latest, "test").tolist() == times.tolist()
    ages[3] += np.uint64(1)
    with pytest.raises(CorruptSketchError, match="corrupt test: times out of range"):
        times_of(ages, STARTS, latest, "test")


@pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave])
def test_latest_times_before_int64_are_refused(cls):
    sketch = cls()
    sketch.update(0, at=INT64_MIN + 1)
    frame = sketch.to_bytes()
    assert loads(frame).latest == INT64_MIN + 1
    # The payload ends with the time, whose zigzag is 2⁶⁴ − 3, and with the number of items, 0.
    assert frame.endswith(b"\xfd" + b"\xff" * 8 + b"\x01\x00", 0, -4)
    body = frame[:-15] + b"\xff" + frame[-14:-4]
    with pytest.raises(CorruptSketchError, match="the latest time is out of range"):
        loads(body + struct.pack("<I", zlib.crc32(body)))
