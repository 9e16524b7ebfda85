"""The streams of the golden files: only arithmetic, no random generator, fixed capacities.

Run as a program, it writes the files that do not exist yet. It never overwrites a file.
"""

from pathlib import Path

import numpy as np

from recency import (
    DecayedSample,
    DeterministicWave,
    DyadicEcm,
    EcmSketch,
    ExponentialHistogram,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
    merge_all,
)
from recency.core.codec import FORMAT_VERSION
from recency.decay import (
    Chordal,
    Exponential,
    FiniteExponential,
    NoDecay,
    PolyExponential,
    Polynomial,
    SlidingWindow,
    SuperExponential,
)


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


def _late(size):
    """Times out of order, each about three times."""
    return np.arange(size) * 7919 % size // 3


def _distinct(items, **settings):
    sketch = RandomizedWave("20 minutes", 0.3, unit="s", **{"capacity": 57, **settings})
    sketch.update_many(items, at=_late(len(items)))
    return sketch


def _events(cls, ids, **settings):
    parts = []
    for stream in range(2):
        part = cls(1000, 0.3, stream=stream, capacity=30, **settings)
        part.update_many(_values(2000) / 4, at=_late(2000), id=np.arange(2000) if ids else None)
        parts.append(part)
    return merge_all(parts)


def _aged(cls):
    """Of one window that is shorter than the stream; numbers of all sizes, and equal events."""
    sketch = cls(500, 0.3, capacity=30, unit="s")
    rows = np.arange(3000)
    sketch.update_many(rows % 97 / (1 + rows % 31), at=_late(3000) - 400, id=rows % 1000)
    sketch.update_many([2.0**60, 2.0**-60, 0.0], at=[600, 599, 601], id=["a", b"b", 3])
    return sketch


def _nth_recent():
    sketch = NthRecentWave(window=3000, relative_error=0.1)
    sketch.update_many(_values(3000) % 2, at=_times(3000))
    return sketch


_MIXED = [1, -7, "a", "ü", "", b"", b"\x00\xff", 2**62]

STREAMS |= {
    "randomized-empty": lambda: RandomizedWave(window=10, seed=3, capacity=57),
    "randomized-integers": lambda: _distinct(_values(4000) * 1000 + np.arange(4000)),
    "randomized-kept": lambda: _distinct(_MIXED * 5, keep_items=True, capacity=4),
    "sum-age-cells": lambda: _events(SumWave, ids=True),
    "sum-age-cells-expired": lambda: _aged(SumWave),
    "sum-indices": lambda: _events(SumWave, ids=False, seed=5),
    "quantile-age-cells": lambda: _events(QuantileWave, ids=True),
    "quantile-age-cells-expired": lambda: _aged(QuantileWave),
    "quantile-indices": lambda: _events(QuantileWave, ids=False, confidence=0.9),
    "nth-recent": _nth_recent,
}


def _dyadic(**settings):
    small = {"width": 7, "depth": 3, "range_depth": 2, "cell_error": 0.2, "universe_bits": 12}
    sketch = DyadicEcm(**{"window": 3000, **small, "seed": 2, **settings})
    timed = {} if sketch.config.by == "count" else {"at": _times(2000)}
    items = _values(2000) % 31
    if sketch.config.names:
        items = [f"item {i}" for i in items.tolist()]
    sketch.update_many(items, weight=_values(2000) % 4, **timed)
    return sketch


def _ecm(**settings):
    sketch = EcmSketch(
        **{"window": 3000, "width": 7, "depth": 3, "cell_error": 0.2, "seed": 2, **settings}
    )
    timed = {} if sketch.config.by == "count" else {"at": _times(2000)}
    sketch.update_many(_values(2000) % 17, weight=_values(2000) % 4, **timed)
    sketch.update_many(["a", b"b", "ü"], **({"at": 5000} if timed else {}))
    return sketch


STREAMS |= {
    "ecm-eh": _ecm,
    "ecm-dw": lambda: _ecm(counter="dw", optimize_for="inner_product", late="clamp"),
    "ecm-rw": lambda: _ecm(counter="rw", cell_capacity=11, unit="ms"),
    "ecm-count": lambda: _ecm(by="count"),
    "ecm-merged": lambda: merge_all([_ecm(), _ecm()]),
    "ecm-empty": lambda: _ecm().empty_like(merge_levels=2),
    "dyadic-eh": lambda: _dyadic(),
    "dyadic-dw": lambda: _dyadic(counter="dw", late="clamp", universe_bits=33),
    "dyadic-rw": lambda: _dyadic(counter="rw", cell_capacity=11, unit="ms"),
    "dyadic-exact": lambda: _dyadic(universe_bits=5, width=40),
    "dyadic-count": lambda: _dyadic(by="count"),
    "dyadic-names": lambda: _dyadic(names=True, name_capacity=9, universe_bits=20, stream=3),
    "dyadic-merged": lambda: merge_all([_dyadic(), _dyadic()]),
    "dyadic-empty": lambda: _dyadic(names=True).empty_like(merge_levels=2, stream=4),
}


def _decayed(decay=None, **settings):
    sketch = DecayedSample(0.3, decay=decay, **{"capacity": 25, "seed": 4, **settings})
    weights = _values(3000) / 4 % 20
    sketch.update_many(_values(3000) - 50, at=_late(3000), weight=weights, id=np.arange(3000))
    sketch.update_many([1.5, 2.5], at=990, weight=[0.1, 1e6], id=["a", b"b"])
    return sketch


STREAMS |= {
    "decayed-empty": lambda: DecayedSample(capacity=9, window="1 day", unit="s"),
    "decayed-chosen": lambda: _decayed(window=700),
    "decayed-copies": lambda: _decayed(copies=3, unit="ms"),
    "decayed-merged": lambda: merge_all([_decayed(), _decayed()]),
    "decayed-exponential": lambda: _decayed(Exponential(half_life=100)),
    "decayed-polynomial": lambda: _decayed(Polynomial(1.5, scale=10), copies=3),
    "decayed-polyexponential": lambda: _decayed(PolyExponential(2, 3, scale=200)),
    "decayed-superexponential": lambda: _decayed(SuperExponential(1e-4, 1.5)),
    "decayed-chordal": lambda: _decayed(Chordal(650.5), window=700),
    "decayed-sliding": lambda: _decayed(SlidingWindow(5, scale=60)),
    "decayed-finite": lambda: _decayed(FiniteExponential(0.01, 0.05)),
    "decayed-undecayed": lambda: _decayed(NoDecay()),
}


def _ranges(decay=None, **settings):
    usual = {"sampler": "range", "capacity": 25, "seed": 4}
    sketch = DecayedSample(0.3, decay=decay, **{**usual, **settings})
    weights = _values(3000) % 40
    sketch.update_many(_values(3000) - 50, at=_late(3000), weight=weights, id=np.arange(3000))
    sketch.update_many(1.5, at=[990, 991], weight=[1, 2**20], id=["a", b"b"])
    return sketch


STREAMS |= {
    "decayed-range": lambda: _ranges(window=700),
    "decayed-range-merged": lambda: merge_all([_ranges(copies=3), _ranges(copies=3)]),
    "decayed-range-exponential": lambda: _ranges(Exponential(half_life=100)),
    "decayed-range-chordal": lambda: _ranges(Chordal(650.5), window=700, unit="s"),
}


def _correlated(decay, ids=True, **settings):
    parts = []
    for stream in range(2):
        part = WeightBasedMergingHistogram(
            decay, 0.3, max_value=500, stream=stream, **{"capacity": 9, "seed": 6, **settings}
        )
        part.update_many(
            _values(2000) / 2,
            at=_late(2000) * 50 - 7 * stream,
            weight=_values(2000) / 4 % 20,
            id=np.arange(2000) if ids else None,
        )
        parts.append(part)
    return merge_all(parts)


STREAMS |= {
    "correlated-empty": lambda: WeightBasedMergingHistogram(Polynomial(1), capacity=9, unit="s"),
    "correlated-event-ids": lambda: _correlated(Polynomial(1.5)),
    "correlated-indices": lambda: _correlated(Polynomial(0.5, scale=60), ids=False, unit="ms"),
    "correlated-narrow-regions": lambda: _correlated(Polynomial(2, scale=100), spread=0.1),
    "correlated-no-decay": lambda: _correlated(NoDecay()),
    "correlated-all-kept": lambda: _correlated(FiniteExponential(0.001, 0.1), capacity=10_000),
}


# Files that are still read, though these streams lead to other bytes now, and why.
READ_ONLY = dict.fromkeys(
    [
        "sum-ids",
        "quantile-ids",
        "correlated-ids",
        "correlated-narrow",
        "correlated-undecayed",
        "correlated-finite",
    ],
    "coins came from ids alone, not from id, time and value",
) | dict.fromkeys(
    ["sum-event-ids", "quantile-event-ids"],
    "sums by age were not kept",
)


if __name__ == "__main__":
    folder = Path(__file__).parent / f"v{FORMAT_VERSION}"
    folder.mkdir(exist_ok=True)
    for name, make in STREAMS.items():
        path = folder / f"{name}.bin"
        if not path.exists():
            path.write_bytes(make().to_bytes())
            print("wrote", path)
