"""Bytes of every family and format version stay readable, and stay the same.

``tests/golden/v1/*.bin`` were written once by ``python tests/golden/streams.py``. The streams that
they summarise are made anew here, so a changed rule of what is kept shows up too.
"""

from pathlib import Path

import pytest

from golden.streams import STREAMS
from recency import loads
from recency.sketch import FAMILIES

FILES = sorted(Path(__file__).parent.glob("v*/*.bin"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_old_bytes_are_read_and_written_alike(path):
    frame = path.read_bytes()
    rebuilt = STREAMS[path.stem]()
    sketch = loads(frame)
    assert sketch == rebuilt
    assert sketch.config == rebuilt.config
    assert sketch.to_bytes() == frame


def test_every_stream_has_a_file_and_every_family_a_stream():
    assert {path.stem for path in FILES} == set(STREAMS)
    assert {type(make()).__name__ for make in STREAMS.values()} == set(FAMILIES.values())
