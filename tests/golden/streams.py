"""The streams behind the golden files: arithmetic only, no random generator.

Run as a program, it writes the files that do not exist yet. It never writes one again.
"""

from pathlib import Path

import numpy as np

from recency import DeterministicWave, ExponentialHistogram, merge_all
from recency.core.codec import FORMAT_VERSION


def _times(size):
    return np.cumsum(np.arange(size) % 5)


def _values(size):
    return np.arange(size) * 7919 % 101


def _counter(cls, size=5000, **settings):
    sketch = cls(**{"window": 3000, "relative_error": 0.1, **settings})
    sketch.update_many(_values(size), at=_times(size))
    return sketch


def _merged(cls):
    leaves = [cls(window="50 minutes", unit="s").empty_like(merge_levels=2) for _ in range(3)]
    for index, leaf in enumerate(leaves):
        leaf.update_many(at=_times(4000)[index::3])
    return merge_all(leaves)


def _clamped(cls):
    sketch = cls(unit="ms", late="clamp")
    for at in (10, 500, 20, 400, 900):
        sketch.update(3, at=at * 1000)
    return sketch


def _by_count(cls):
    sketch = cls(window=48, relative_error=0.25, by="count")
    sketch.update_many(_values(300) % 2)
    return sketch


STREAMS = {
    f"{name}-{kind}": (lambda cls=cls, make=make: make(cls))
    for name, cls in [("exponential", ExponentialHistogram), ("wave", DeterministicWave)]
    for kind, make in [
        ("empty", lambda cls: cls(window=10)),
        ("sum", _counter),
        ("merged", _merged),
        ("clamped", _clamped),
        ("count", _by_count),
    ]
}


if __name__ == "__main__":
    folder = Path(__file__).parent / f"v{FORMAT_VERSION}"
    folder.mkdir(exist_ok=True)
    for name, make in STREAMS.items():
        path = folder / f"{name}.bin"
        if not path.exists():
            path.write_bytes(make().to_bytes())
            print("wrote", path)
