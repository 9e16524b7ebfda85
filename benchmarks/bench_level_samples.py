"""Speed and size of the sketches on level samples, compared with DataSketches."""

import math
from itertools import pairwise

import numpy as np
from datasketches import hll_sketch, hll_union, kll_doubles_sketch

from harness import Report, seconds
from recency import NthRecentWave, QuantileWave, RandomizedWave, SumWave, loads, merge_all

EVENTS = 5_000_000


def feed(sketch, batch, times, **columns):
    for begin in range(0, times.size, batch):
        part = slice(begin, begin + batch)
        sketch.update_many(
            at=times[part], **{name: column[part] for name, column in columns.items()}
        )
    sketch.to_bytes()  # nothing may wait in a buffer
    return sketch


def hll_loop(items):
    sketch = hll_sketch(12)
    for item in items:
        sketch.update(item)


def distinct(report):
    rng = np.random.default_rng(0)
    times = np.arange(EVENTS)
    workloads = {
        "Zipf 1.2": rng.zipf(1.2, EVENTS) % 2**40,
        "uniform": rng.integers(0, 1_000_000, EVENTS),
        "all distinct": np.arange(EVENTS),
    }
    for name, items in workloads.items():
        plain = items[:1_000_000].tolist()
        hll = 1 / seconds(lambda: hll_loop(plain))
        report.add(f"DataSketches hll_sketch(12).update in a loop, {name}", hll, "M/s")
        for batch in (10_000, 1_000_000):
            rate = (
                EVENTS / 1e6 / seconds(lambda: feed(RandomizedWave(), batch, times, item=items), 3)
            )
            report.add(f"RandomizedWave.update_many, {name}, batches of {batch}", rate, "M/s")
            report.add("  as a ratio to hll", rate / hll, "×", at_least=0.8)
    urls = [f"https://example.com/products/{n}?ref={n * 7919 % 1000}" for n in range(50_000)]
    column = [urls[n] for n in rng.integers(0, 50_000, 1_000_000)]
    rate = 1 / seconds(lambda: RandomizedWave().update_many(column, at=times[:1_000_000]), 3)
    report.add("RandomizedWave, strings, 50 000 different URLs", rate, "M/s", at_least=2)
    column = [f"https://example.com/products/{n}" for n in range(1_000_000)]
    rate = 1 / seconds(lambda: RandomizedWave().update_many(column, at=times[:1_000_000]), 3)
    report.add("RandomizedWave, strings, all distinct", rate, "M/s", at_least=1)


def size(report):
    wave = RandomizedWave()
    wave.update_many(np.arange(10**7), at=np.arange(10**7))
    wave.query()
    report.add("RandomizedWave, 10⁷ distinct items: bytes", wave.nbytes, "B", at_most=250_000)
    report.add("  per item kept", wave.nbytes / wave._keyed.state().body.entries, "B", at_most=11)
    query = seconds(lambda: [wave.query(10**6 + i) for i in range(20)]) / 20
    report.add("RandomizedWave.query", query * 1e3, "ms", at_most=1)
    frame = wave.to_bytes()
    report.add("RandomizedWave.to_bytes", seconds(wave.to_bytes) * 1e3, "ms")
    report.add("loads", seconds(lambda: loads(frame)) * 1e3, "ms")


def against_hll_per_minute(report):
    """Two days; distinct visitors of the last hours, from one wave and from a sketch per minute."""
    rng = np.random.default_rng(3)
    minutes = 3_300  # 55 hours, the larger part of three days
    events = 6_600_000
    times = np.sort(rng.integers(0, minutes * 60, events))
    users = rng.zipf(1.3, events) % 3_000_000
    wave = RandomizedWave(window=minutes * 60, relative_error=0.02)
    wave.update_many(users, at=times)
    per_minute = []
    bounds = np.searchsorted(times, np.arange(0, minutes * 60 + 1, 60))
    for begin, end in pairwise(bounds):
        sketch = hll_sketch(12)
        for user in users[begin:end].tolist():
            sketch.update(user)
        per_minute.append(sketch)
    hll_bytes = sum(len(sketch.serialize_compact()) for sketch in per_minute)
    errors = {"wave": [], "hll": []}
    for hours in (1, 2, 3, 6, 9, 12, 18, 24, 36, 48, 55):
        union = hll_union(12)
        for sketch in per_minute[-60 * hours :]:
            union.update(sketch)
        truth = np.unique(users[times >= (minutes - 60 * hours) * 60]).size
        answer = wave.query(hours * 3600, now=minutes * 60 - 1)
        errors["wave"].append(float(answer) / truth - 1)
        errors["hll"].append(union.get_result().get_estimate() / truth - 1)
    report.add("HLL (lgK 12) per minute over 55 hours: bytes", hll_bytes, "B")
    report.add("RandomizedWave(relative_error=0.02) over the same: bytes", wave.nbytes, "B")
    report.add("  as a share", wave.nbytes / hll_bytes, "×", at_most=0.2)
    for name, values in errors.items():
        root = math.sqrt(np.mean(np.square(values)))
        report.add(f"  root mean square error over 11 windows, {name}", root, "")


def sums_and_quantiles(report):
    rng = np.random.default_rng(1)
    values = rng.pareto(1.5, EVENTS)
    kll = EVENTS / 1e6 / seconds(lambda: kll_doubles_sketch(200).update(values))
    report.add("DataSketches kll_doubles_sketch(200).update(ndarray)", kll, "M/s")
    orders = {"in order": np.arange(EVENTS), "in random order": rng.permutation(EVENTS)}
    for cls in (SumWave, QuantileWave):
        for order, times in orders.items():
            for batch in (10_000, EVENTS):
                rate = EVENTS / 1e6 / seconds(lambda: feed(cls(), batch, times, value=values), 3)
                report.add(f"{cls.__name__}, {order}, batches of {batch}", rate, "M/s")
                budget = 0.4 if batch == EVENTS else None
                report.add("  as a ratio to kll", rate / kll, "×", at_least=budget)
        sketch = feed(cls(), EVENTS, times, value=values)
        kept = sketch._keyed.state().body.entries
        report.add(f"{cls.__name__}: bytes per event kept", sketch.nbytes / kept, "B", at_most=11)
        query = seconds(lambda: [sketch.query(window=10**6 + i) for i in range(20)]) / 20
        report.add(f"{cls.__name__}.query", query * 1e3, "ms", at_most=1)
    nth = NthRecentWave()
    rate = EVENTS / 1e6 / seconds(lambda: NthRecentWave().update_many(at=orders["in order"]))
    report.add("NthRecentWave.update_many, 5 M", rate, "M/s")
    nth.update_many(at=orders["in order"])
    report.add("NthRecentWave.query", seconds(lambda: nth.query(10**6)) * 1e3, "ms", at_most=1)


def merging(report):
    for cls in (RandomizedWave, SumWave, QuantileWave):
        name = "item" if cls is RandomizedWave else "value"
        parts = []
        for index in range(1000):
            part = cls().empty_like(stream=index)
            numbers = np.arange(index * 10_000, (index + 1) * 10_000)
            part.update_many(**{name: numbers}, at=numbers % 7919)
            part.query(window=1)
            parts.append(part)
        merge = seconds(lambda: merge_all(parts), 2)
        report.add(f"merge_all of 1 000 {cls.__name__}s of 10 000 events", merge, "s", at_most=5)


def main():
    report = Report("level_samples")
    distinct(report)
    size(report)
    sums_and_quantiles(report)
    merging(report)
    against_hll_per_minute(report)
    report.write()


if __name__ == "__main__":
    main()
