"""Speed and size of the exponential histogram and the deterministic wave."""

import numpy as np
from datasketches import kll_doubles_sketch

from harness import Report, seconds
from recency import DeterministicWave, ExponentialHistogram, merge_all

EVENTS = 5_000_000


def feed(sketch, times, batch):
    for begin in range(0, times.size, batch):
        sketch.update_many(at=times[begin : begin + batch])
    sketch.query(1)  # nothing may wait in a buffer
    return sketch


def main():
    report = Report("window_counters")
    times = np.arange(EVENTS)
    doubles = np.random.default_rng(0).random(EVENTS)
    kll = EVENTS / seconds(lambda: kll_doubles_sketch(200).update(doubles)) / 1e6
    report.add("DataSketches kll_doubles_sketch(200).update(ndarray), 5 M", kll, "M/s")

    for cls in (ExponentialHistogram, DeterministicWave):
        name = cls.__name__
        for batch, ratio in ((EVENTS, 0.7), (10_000, 0.35)):
            rate = EVENTS / seconds(lambda: feed(cls(window=10**6), times, batch)) / 1e6
            report.add(f"{name}.update_many, 5 M ordered units, batches of {batch}", rate, "M/s")
            report.add("  as a ratio to kll", rate / kll, "×", at_least=ratio)
        values = np.random.default_rng(1).integers(0, 1000, EVENTS)
        sums = seconds(lambda: cls(window=10**6).update_many(values, at=times))
        report.add(f"{name}.update_many, 5 M values to 999, one batch", EVENTS / sums / 1e6, "M/s")
        singles = seconds(lambda: [one.update(at=i) for one in [cls()] for i in range(50_000)], 3)
        report.add(f"{name}.update, single events", 0.05 / singles, "M/s")

        full = cls()
        full.update_many(at=np.arange(10**7))
        report.add(
            f"{name}, 10⁷ events, ε = 0.05: entries",
            full._keyed.state().body.entries,
            "",
            at_most=230,
        )
        report.add(f"{name}, 10⁷ events, ε = 0.05: bytes", full.nbytes, "B", at_most=1500)
        spread = cls(unit="us")
        spread.update_many(at=np.sort(np.random.default_rng(2).integers(0, 172_800 * 10**6, 10**7)))
        report.add(f"{name}, the same at random microseconds of two days", spread.nbytes, "B")
        report.add(
            "  per entry", spread.nbytes / spread._keyed.state().body.entries, "B", at_most=6
        )

        query = seconds(lambda: [full.query(w) for w in range(1, 10**6, 1000)]) / 1000
        report.add(f"{name}.query", query * 1e6, "µs", at_most=50)
        twins = [full.copy() for _ in range(20)]
        merge = seconds(lambda: [twin.copy().merge(full) for twin in twins]) / 20
        report.add(f"{name}.merge of two full ones", merge * 1e3, "ms", at_most=1)
        parts = []
        for shift in range(1000):
            part = cls()
            part.update_many(at=np.arange(shift, 10**6 + shift, 100))
            parts.append(part)
        for part in parts:
            part.query(1)
        n_way = seconds(lambda: merge_all(parts))
        report.add(f"{name}: merge_all of 1 000 full ones", n_way * 1e3, "ms", at_most=200)
    report.write()


if __name__ == "__main__":
    main()
