"""Speed and size of heavy hitters, ranges and quantiles."""

import numpy as np

from harness import Report, seconds
from recency import DyadicEcm, merge_all

EVENTS = 2_000_000
WINDOW = 1_000_000


def feed(sketch, items, times, batch=10_000):
    for begin in range(0, len(items), batch):
        part = slice(begin, begin + batch)
        sketch.update_many(items[part], at=times[part])
    sketch.total()  # nothing may wait in a buffer
    return sketch


def main():
    report = Report("dyadic")
    rng = np.random.default_rng(0)
    ranks = rng.zipf(1.2, EVENTS)
    items, times = ranks * 2654435761 % 2**32, np.arange(EVENTS)
    names = [f"/page/{rank}" for rank in (ranks % 100_000).tolist()]
    for what, settings, column, budget in [
        ("universe_bits=32", {}, items, 0.3),
        ("universe_bits=32, ε = 0.05", {"relative_error": 0.05}, items, None),
        ("universe_bits=32, dw", {"counter": "dw"}, items, None),
        ("universe_bits=16", {"universe_bits": 16}, items % 2**16, None),
        ("names", {"names": True}, names, None),
    ]:
        took = seconds(lambda: feed(DyadicEcm(WINDOW, **settings), column, times), 2)
        report.add(f"update_many, {what}", EVENTS / 1e6 / took, "M/s", budget)
        sketch = feed(DyadicEcm(WINDOW, **settings), column, times)
        log = sketch._keyed.state().body.cells.log
        taken = sum(each.nbytes for each in (log.times, log.ranks, log.values))
        report.add("  memory", taken / 1e6, "MB", at_most=None if settings else 20)
        report.add("  forecast", sketch.forecast(WINDOW) / 1e6, "MB")
        report.add("  bytes", sketch.nbytes / 1e6, "MB")
    sketch = feed(DyadicEcm(WINDOW), items, times)
    windows = iter(range(1000, 10**6))
    for threshold in (0.01, 0.1):
        took = seconds(lambda: sketch.heavy_hitters(threshold, next(windows)), 5)
        report.add(f"heavy_hitters({threshold})", took * 1e3, "ms", at_most=50)
    took = seconds(lambda: sketch.range_count(12_345, 3_000_000_000, next(windows)), 5)
    report.add("range_count", took * 1e3, "ms", at_most=5)
    report.add("quantile", seconds(lambda: sketch.quantile(0.5, next(windows)), 5) * 1e3, "ms")
    took = seconds(lambda: merge_all([sketch, sketch.copy()]), 3)
    report.add("merge of two", took * 1e3, "ms")
    report.write()


if __name__ == "__main__":
    main()
