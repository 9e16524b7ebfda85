"""Bytes of every family and format version can be read, and are written the same.

``tests/golden/v1/*.bin`` were written once by ``python tests/golden/streams.py``. The tests build
the same sketches again, so a changed rule for which elements are kept is noticed, too.
"""

import math
from pathlib import Path

import numpy as np
import pytest

from golden.streams import READ_ONLY, STREAMS, _late, _values
from recency import QuantileWave, SumWave, loads, merge_all
from recency.serialization import FAMILIES
from states import events_of

FILES = sorted(Path(__file__).parent.glob("v*/*.bin"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_old_bytes_are_read_and_written_alike(path):
    frame = path.read_bytes()
    sketch = loads(frame)
    assert sketch.to_bytes() == frame
    if path.stem not in READ_ONLY:
        rebuilt = STREAMS[path.stem]()
        assert sketch == rebuilt
        assert sketch.config == rebuilt.config


@pytest.mark.parametrize("old", READ_ONLY)
def test_sketches_with_coins_of_the_old_rule_merge_with_new_ones(old):
    path = next(path for path in FILES if path.stem == old)
    sketch = loads(path.read_bytes())
    alike = [s for s in (make() for make in STREAMS.values()) if s.config == sketch.config]
    new = next(each for each in alike if not each.is_empty)
    merged = merge_all([sketch, new])
    assert events_of(merged) == events_of(sketch) + events_of(new)
    assert loads(merged.to_bytes()) == merged
    for each, times in ((sketch, 1), (merged, 2)):
        answer, truth = each.query(), exact(each, times)
        slack = 1e-12 * truth  # of a sum of floats
        assert answer.lower - slack <= truth <= answer.upper + slack
        if not isinstance(each, QuantileWave):
            assert abs(answer.value - truth) <= each.guarantee * truth + slack


def exact(sketch, times):
    """Return the exact answer for a sketch of two parts, from the rules of ``streams.py``."""
    values, at = _values(2000), _late(2000)
    if isinstance(sketch, QuantileWave):
        return float(np.sort(values)[999] / 4)
    if isinstance(sketch, SumWave):
        return times * 2 * float(values.sum()) / 4
    ages = sketch.latest - np.concatenate([at * 50, at * 50 - 7])
    weights = np.tile(values / 4 % 20, 2)
    return times * math.fsum(weights * sketch.config.decay.at(ages.astype(float)))


def test_every_stream_has_a_file_and_every_family_a_stream():
    assert {path.stem for path in FILES} == {*STREAMS, *READ_ONLY}
    assert {type(make()).__name__ for make in STREAMS.values()} == set(FAMILIES.values())
