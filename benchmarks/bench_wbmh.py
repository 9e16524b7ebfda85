"""Speed and size of the weight-based merging histogram."""

import numpy as np

from harness import Report, feed, seconds
from recency import WeightBasedMergingHistogram, merge_all
from recency.decay import Polynomial

EVENTS = 5_000_000
DECAY = Polynomial(1.5)


def columns():
    """Zipf values up to a million, weights up to 99, up to 2 000 ticks late."""
    rng = np.random.default_rng(0)
    return {
        "value": rng.zipf(1.3, EVENTS) % 1_000_000,
        "at": np.arange(EVENTS) - rng.integers(0, 2000, EVENTS),
        "weight": rng.integers(1, 100, EVENTS),
    }


def main():
    report = Report("wbmh")
    rows = columns()
    now = int(rows["at"].max())
    decayed = rows["weight"] * DECAY(now - rows["at"])
    for error in (0.1, 0.05):
        for batch in (10_000, 1_000_000):
            took = seconds(lambda: feed(WeightBasedMergingHistogram(DECAY, error), rows, batch), 3)
            rate = EVENTS / 1e6 / took
            what = f"update_many, ε = {error}, batches of {batch}"
            report.add(what, rate, "M/s", at_least=1 if error == 0.1 else None)
    for error in (0.2, 0.1, 0.05):
        sketch = feed(WeightBasedMergingHistogram(DECAY, error), rows, 10**6)
        oldest = now - int(rows["at"].min())
        beta = np.ceil(np.log(1 / DECAY(oldest)) / np.log(1 + sketch.config.spread))
        report.add(f"ε = {error}: buckets", len(sketch.buckets), "", at_most=2 * beta + 2)
        kept = sketch._keyed.state().body.entries
        report.add("  elements kept", kept, "")
        report.add("  bytes", sketch.nbytes / 1e3, "KB")
        report.add("  bytes per element", sketch.nbytes / kept, "bytes")
        for q in (0, 0.5, 0.99):
            threshold = float(np.quantile(rows["value"], q)) if q else 0
            took = seconds(lambda: sketch.query(threshold), 9)
            most = 5 if error == 0.1 else None
            report.add(f"  query, quantile {q} of values", took * 1e3, "ms", at_most=most)
            truth = float(decayed[rows["value"] >= threshold].sum())
            report.add("    error", abs(sketch.query(threshold).value / truth - 1), "")
        other = sketch.copy()
        report.add("  merge", seconds(lambda: merge_all([sketch, other]), 5) * 1e3, "ms")
        for what, ask in {
            "quantile": lambda: sketch.quantile(0.99),
            "heavy_hitters": lambda: sketch.heavy_hitters(0.05),
            "count": lambda: sketch.count(1000),
        }.items():
            report.add(f"  {what}", seconds(ask, 3) * 1e3, "ms")
    report.write()


if __name__ == "__main__":
    main()
