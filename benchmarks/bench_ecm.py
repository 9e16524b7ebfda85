"""Speed and size of the ECM-sketch, compared with a count-min sketch without windows."""

import numpy as np
from datasketches import count_min_sketch

from harness import Report, seconds
from recency import EcmSketch, merge_all

EVENTS = 5_000_000
WINDOW = 1_000_000


def feed(sketch, items, times, batch):
    for begin in range(0, items.size, batch):
        part = slice(begin, begin + batch)
        sketch.update_many(items[part], at=times[part])
    sketch.total()  # nothing may wait in a buffer
    return sketch


def count_min_loop(items):
    sketch = count_min_sketch(3, 111)
    for item in items:
        sketch.update(item)


def main():
    report = Report("ecm")
    rng = np.random.default_rng(0)
    items, times = rng.zipf(1.2, EVENTS) % 2**40, np.arange(EVENTS)
    plain = items[:1_000_000].tolist()
    for error in (0.05, 0.1):
        for counter in ("eh", "dw"):
            for batch in (10_000, 1_000_000):
                rate = (
                    EVENTS
                    / 1e6
                    / seconds(
                        lambda: feed(
                            EcmSketch(WINDOW, error, counter=counter), items, times, batch
                        ),
                        3,
                    )
                )
                base = 1 / seconds(lambda: count_min_loop(plain), 2)
                what = f"update_many, ε = {error}, {counter}, batches of {batch}"
                report.add(what, rate, "M/s")
                budget = 1 if (error, counter) == (0.05, "eh") else None
                report.add("  ratio to count_min_sketch(3, …) in a loop", rate / base, "×", budget)
    for error in (0.05, 0.1):
        for counter in ("eh", "dw"):
            sketch = feed(EcmSketch(WINDOW, error, counter=counter), items, times, 10**6)
            most = 200 if error == 0.1 else None
            size = sketch.nbytes
            report.add(f"bytes, ε = {error}, {counter}", size / 1e3, "KB", at_most=most)
            report.add("  per entry", size / sketch._entries(), "bytes", at_most=6)
    sampled = feed(EcmSketch(WINDOW, 0.1, counter="rw"), items[: 10**6], times[: 10**6], 10**6)
    report.add("bytes, ε = 0.1, rw, a million events", sampled.nbytes / 1e3, "KB")
    sketch = feed(EcmSketch(WINDOW), items, times, 10**6)
    asked = np.arange(10_000)
    windows = iter(range(1000, 10**6))
    took = seconds(lambda: sketch.query_many(asked, next(windows)), 5)
    report.add("10 000 point queries by query_many", took * 1e3, "ms", at_most=100)
    took = seconds(lambda: sketch.query(5, next(windows)), 5)
    report.add("one query, of a new window", took * 1e3, "ms")
    other = sketch.copy()
    took = seconds(lambda: merge_all([sketch, other]), 5)
    report.add("merge of two", took * 1e3, "ms", at_most=50)
    parts = []
    for i in range(256):
        part = sketch.empty_like(merge_levels=1)
        part.update_many(items[i::256], at=times[i::256])
        parts.append(part)
    report.add("merge_all of 256", seconds(lambda: merge_all(parts), 2), "s", at_most=5)
    report.write()


if __name__ == "__main__":
    main()
