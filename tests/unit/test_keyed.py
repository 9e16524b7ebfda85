"""The buffer of rows, for streams longer than those of the laws."""

import numpy as np
import pytest

import cases
from recency import Bank, ExponentialHistogram, NthRecentWave
from recency.testing import _code_of, _lost

CODE = _code_of(cases.CASES[0])


def small_buffer(sketch, rows=20):
    sketch._algorithm.flush_rows = rows
    return sketch


def bytes_of(sketch):
    return sketch.to_bytes()


@pytest.mark.parametrize("cls", [ExponentialHistogram, NthRecentWave])
@pytest.mark.parametrize("size", [5, 19, 20, 50])
def test_a_call_that_makes_room_in_the_buffer_may_be_interrupted(cls, size):
    times = np.arange(100)

    def make():
        sketch = small_buffer(cls(window=40, relative_error=0.3))
        for part in (times[:15], times[15:30], times[30:45]):  # the buffer is in its second use
            sketch.update_many(at=part)
        sketch.update(at=45)
        return sketch

    def call(sketch):
        sketch.update_many(at=times[46 : 46 + size])

    assert not list(_lost(make, call, bytes_of, CODE, None))


@pytest.mark.parametrize("cls", [ExponentialHistogram, NthRecentWave])
def test_a_reused_buffer_has_only_later_rows(cls):
    rng = np.random.default_rng(1)
    prototype = cls(window=300, relative_error=0.3)
    bank, alone = Bank(small_buffer(prototype.empty_like())), {}
    now = 0
    for _ in range(200):
        keys = rng.integers(0, rng.integers(1, 4), rng.integers(1, 15)).tolist()
        at = now + np.sort(rng.integers(0, 9, len(keys)))
        now = int(at.max())
        bank.update_many(keys, at=at)
        for key, tick in zip(keys, at.tolist(), strict=True):
            alone.setdefault(key, prototype.copy()).update(at=tick)
        if rng.random() < 0.1:
            key = keys[0]
            assert bank[key] == alone[key]
    assert bank.to_bytes() == {key: sketch.to_bytes() for key, sketch in alone.items()}
