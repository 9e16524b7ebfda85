"""Speed and size of the decayed sample, with the decay in the question or in the constructor."""

import numpy as np

from harness import Report, feed, seconds
from recency import DecayedSample, merge_all
from recency.decay import (
    Chordal,
    Exponential,
    FiniteExponential,
    PolyExponential,
    Polynomial,
    SlidingWindow,
    SuperExponential,
)

EVENTS = 5_000_000
DECAYS = {
    "SlidingWindow": SlidingWindow(1_000_000),
    "Exponential": Exponential(half_life=300_000),
    "Polynomial": Polynomial(1.5, scale=10_000),
    "Chordal": Chordal(2_000_000),
    "FiniteExponential": FiniteExponential(1 / 300_000, 0.01),
    "SuperExponential": SuperExponential(1e-10, 1.7),
    "PolyExponential": PolyExponential(2, 3, scale=300_000),
}


def columns():
    """Weights up to 999, all ids distinct, up to 2 000 ticks late."""
    rng = np.random.default_rng(0)
    return {
        "value": rng.integers(0, 1000, EVENTS),
        "at": np.arange(EVENTS) - rng.integers(0, 2000, EVENTS),
        "weight": rng.integers(0, 1000, EVENTS),
        "id": rng.permutation(EVENTS),
    }


def main():
    report = Report("decayed")
    rows = columns()
    for batch in (10_000, 1_000_000):
        took = seconds(lambda: feed(DecayedSample(), rows, batch), 3)
        rate = EVENTS / 1e6 / took
        report.add(f"update_many, decay=None, batches of {batch}", rate, "M/s", at_least=3)
    for name, decay in DECAYS.items():
        took = seconds(lambda: feed(DecayedSample(decay=decay), rows, 100_000), 1)
        report.add(f"update_many, decay={name}", EVENTS / 1e6 / took, "M/s", at_least=0.5)
    for batch in (10_000, 1_000_000):
        took = seconds(lambda: feed(DecayedSample(sampler="range"), rows, batch), 2)
        what = f"update_many, range, decay=None, batches of {batch}"
        report.add(what, EVENTS / 1e6 / took, "M/s", at_least=1)
    for name, decay in DECAYS.items():
        make = DecayedSample(decay=decay, sampler="range")
        took = seconds(lambda: feed(make.empty_like(), rows, 100_000), 1)
        report.add(f"update_many, range, decay={name}", EVENTS / 1e6 / took, "M/s", at_least=0.2)
    sketch = feed(DecayedSample(), rows, 10**6)
    truth = {}
    now = int(rows["at"].max())
    for name, decay in DECAYS.items():
        took = seconds(lambda: sketch.query(decay), 5)
        report.add(f"query, {name}", took * 1e3, "ms", at_most=20)
        truth[name] = float((rows["weight"] * decay(now - rows["at"])).sum())
        report.add("  error", abs(sketch.query(decay).value / truth[name] - 1), "")
    decay = DECAYS["Exponential"]
    for what, ask in {
        "median": lambda: sketch.median(decay),
        "selectivity": lambda: sketch.selectivity(lambda v, w: v > 500, decay),
        "frequent_items": lambda: sketch.frequent_items(0.01, decay),
        "mean": lambda: sketch.mean(decay),
    }.items():
        report.add(what, seconds(ask, 3) * 1e3, "ms", at_most=20)
    fading = feed(DecayedSample(decay=decay), rows, 10**6)
    ranges = feed(DecayedSample(sampler="range"), rows, 10**6)
    for name, each in [
        ("decay=None", sketch),
        ("decay=Exponential", fading),
        ("range, decay=None", ranges),
    ]:
        kept = each._stored().times.size
        report.add(f"elements kept, {name}", kept, "")
        report.add("  bytes per element", each.nbytes / kept, "bytes", at_most=24)
        report.add("  bytes", each.nbytes / 1e3, "KB")
        other = each.copy()
        most = None if each is ranges else 20
        took = seconds(lambda: merge_all([each, other]), 5)
        report.add("  merge", took * 1e3, "ms", at_most=most)
        report.add("  query", seconds(lambda: each.query(decay), 5) * 1e3, "ms", at_most=most)
    report.write()


if __name__ == "__main__":
    main()
