"""The same questions to DataSketches, a sketch for every minute, and to one sketch of ours.

Two days of events; windows of many lengths that begin in the middle of a minute, as windows do.
"""

from itertools import pairwise

import numpy as np
from datasketches import (
    count_min_sketch,
    hll_sketch,
    hll_union,
    kll_doubles_sketch,
    theta_union,
    update_theta_sketch,
)

from harness import seconds, write_table
from recency import EcmSketch, QuantileWave, RandomizedWave

MINUTES = 2 * 24 * 60
EVENTS = 3_000_000
WINDOWS = [90, 300, 1000, 3700, 10_000, 40_000, 100_000]  # seconds
NOW = MINUTES * 60 - 25


def events():
    rng = np.random.default_rng(6)
    times = np.sort(rng.integers(0, NOW + 1, EVENTS))
    return times, rng.zipf(1.3, EVENTS) % 1_000_000, rng.lognormal(3, 1, EVENTS)


def per_minute(times, feed):
    """A sketch for each minute."""
    bounds = np.searchsorted(times, np.arange(MINUTES + 1) * 60)
    return [feed(slice(a, b)) for a, b in pairwise(bounds)]


def minutes_of(window):
    """Those that come closest to the window (NOW − window, NOW]."""
    return range(round((NOW - window) / 60), MINUTES)


def typical(errors):
    return float(np.sqrt(np.mean(np.square(errors))))


def distinct(times, users):
    truth = [np.unique(users[times > NOW - window]).size for window in WINDOWS]

    def hll(part):
        sketch = hll_sketch(12)
        for user in users[part].tolist():
            sketch.update(user)
        return sketch

    def theta(part):
        sketch = update_theta_sketch(12)
        for user in users[part].tolist():
            sketch.update(user)
        return sketch.compact()

    def union_of_hlls(sketches, window):
        union = hll_union(12)
        for i in minutes_of(window):
            union.update(sketches[i])
        return union.get_estimate()

    def union_of_thetas(sketches, window):
        union = theta_union(12)
        for i in minutes_of(window):
            union.update(sketches[i])
        return union.get_result().get_estimate()

    rows = []
    for name, feed, ask, size in [
        ("HLL, lgK 12, per minute", hll, union_of_hlls, lambda s: len(s.serialize_compact())),
        ("Theta, lgK 12, per minute", theta, union_of_thetas, lambda s: len(s.serialize())),
    ]:
        sketches = per_minute(times, feed)
        answers = [ask(sketches, window) for window in WINDOWS]
        took = seconds(lambda: [ask(sketches, window) for window in WINDOWS], 1) / len(WINDOWS)
        rows.append(("different users", name, sum(map(size, sketches)),
                     typical(np.array(answers) / truth - 1), took * 1e3))  # fmt: skip
    wave = RandomizedWave(relative_error=0.02)
    wave.update_many(users, at=times)
    answers = [wave.query(window, NOW).value for window in WINDOWS]
    took = seconds(lambda: [wave.query(window, NOW) for window in WINDOWS]) / len(WINDOWS)
    rows.append(("different users", "RandomizedWave, ε = 0.02", wave.nbytes,
                 typical(np.array(answers) / truth - 1), took * 1e3))  # fmt: skip
    return rows


def quantiles(times, values):
    in_window = [np.sort(values[times > NOW - window]) for window in WINDOWS]
    ranks = (0.1, 0.5, 0.9, 0.99)

    def rank_errors(asked):
        """asked(window) gives a value for each rank."""
        return [
            np.searchsorted(exact, value, "right") / exact.size - rank
            for window, exact in zip(WINDOWS, in_window, strict=True)
            for rank, value in zip(ranks, asked(window), strict=True)
        ]

    def kll(part):
        sketch = kll_doubles_sketch(200)
        sketch.update(values[part])
        return sketch

    sketches = per_minute(times, kll)

    def merged(window):
        union = kll_doubles_sketch(200)
        for i in minutes_of(window):
            union.merge(sketches[i])
        return union.get_quantiles(list(ranks))

    wave = QuantileWave(rank_error=0.02)
    wave.update_many(values, at=times)

    def asked(window):
        return wave.quantiles(ranks, window, NOW).value

    rows = []
    for name, size, ask in [
        ("KLL, k 200, per minute", sum(len(s.serialize()) for s in sketches), merged),
        ("QuantileWave, rank error 0.02", wave.nbytes, asked),
    ]:
        took = seconds(lambda: [ask(window) for window in WINDOWS], 2) / len(WINDOWS)
        rows.append(("quantiles", name, size, typical(rank_errors(ask)), took * 1e3))
    return rows


def counts(times, users):
    popular = np.unique(users, return_counts=True)
    items = popular[0][np.argsort(-popular[1])[:200]]
    inside = [users[times > NOW - window] for window in WINDOWS]
    truth = [np.bincount(np.searchsorted(np.sort(items), each[np.isin(each, items)]),
                         minlength=items.size) / each.size for each in inside]  # fmt: skip
    items = np.sort(items)

    def count_min(part):
        sketch = count_min_sketch(3, 272)
        for user in users[part].tolist():
            sketch.update(user)
        return sketch

    sketches = per_minute(times, count_min)

    def merged(window):
        union = count_min_sketch(3, 272)
        for i in minutes_of(window):
            union.merge(sketches[i])
        return np.array([union.get_estimate(item) for item in items.tolist()])

    ecm = EcmSketch(relative_error=0.02)
    ecm.update_many(users, at=times)

    def asked(window):
        return ecm.query_many(items, window, NOW).value

    rows = []
    for name, size, ask in [
        ("count-min 3 × 272, per minute", sum(len(s.serialize()) for s in sketches), merged),
        ("EcmSketch, ε = 0.02", ecm.nbytes, asked),
    ]:
        off = [ask(window) / each.size - exact
               for window, each, exact in zip(WINDOWS, inside, truth, strict=True)]  # fmt: skip
        took = seconds(lambda: [ask(window) for window in WINDOWS], 1) / len(WINDOWS)
        rows.append(("counts of 200 users", name, size, typical(np.concatenate(off)), took * 1e3))
    return rows


def main():
    times, users, values = events()
    rows = [*distinct(times, users), *quantiles(times, values), *counts(times, users)]
    columns = ["question", "by", "bytes", "error, root mean square", "ms per answer"]
    write_table("peers", columns, rows)


if __name__ == "__main__":
    main()
