"""The same questions to DataSketches, with one sketch per minute, and to one sketch of ours.

There are two days of events, and windows of many lengths that begin in the middle of a minute.
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
    """Return one sketch per minute."""
    bounds = np.searchsorted(times, np.arange(MINUTES + 1) * 60)
    return [feed(slice(a, b)) for a, b in pairwise(bounds)]


def minutes_of(window):
    """Return the minutes that are closest to the window (NOW − window, NOW]."""
    return range(round((NOW - window) / 60), MINUTES)


def merged(empty, sketches, window):
    """Return the merged sketch of those minutes."""
    add = empty.update if isinstance(empty, (hll_union, theta_union)) else empty.merge
    for i in minutes_of(window):
        add(sketches[i])
    return empty


def each_fed(sketch, items):
    for item in items.tolist():
        sketch.update(item)
    return sketch


def compared(question, contestants, errors, repeat):
    """Return rows for (name, bytes, ask), with the errors of the answers for every window."""
    rows = []
    for name, size, ask in contestants:
        answers = [ask(window) for window in WINDOWS]
        took = seconds(lambda: [ask(window) for window in WINDOWS], repeat) / len(WINDOWS)
        off = float(np.sqrt(np.mean(np.square(errors(answers)))))
        rows.append((question, name, size, off, took * 1e3))
    return rows


def distinct(times, users):
    truth = [np.unique(users[times > NOW - window]).size for window in WINDOWS]
    hlls = per_minute(times, lambda part: each_fed(hll_sketch(12), users[part]))
    thetas = per_minute(
        times, lambda part: each_fed(update_theta_sketch(12), users[part]).compact()
    )
    wave = RandomizedWave(relative_error=0.02)
    wave.update_many(users, at=times)
    contestants = [
        ("HLL, lgK 12, per minute", sum(len(s.serialize_compact()) for s in hlls),
         lambda window: merged(hll_union(12), hlls, window).get_estimate()),
        ("Theta, lgK 12, per minute", sum(len(s.serialize()) for s in thetas),
         lambda window: merged(theta_union(12), thetas, window).get_result().get_estimate()),
        ("RandomizedWave, ε = 0.02", wave.nbytes, lambda window: wave.query(window, NOW).value),
    ]  # fmt: skip
    return compared("different users", contestants, lambda said: np.array(said) / truth - 1, 5)


def quantiles(times, values):
    in_window = [np.sort(values[times > NOW - window]) for window in WINDOWS]
    ranks = (0.1, 0.5, 0.9, 0.99)

    def errors(said):
        return [
            np.searchsorted(exact, value, "right") / exact.size - rank
            for exact, of_window in zip(in_window, said, strict=True)
            for rank, value in zip(ranks, of_window, strict=True)
        ]

    def kll(part):
        sketch = kll_doubles_sketch(200)
        sketch.update(values[part])
        return sketch

    klls = per_minute(times, kll)
    wave = QuantileWave(rank_error=0.02)
    wave.update_many(values, at=times)
    contestants = [
        ("KLL, k 200, per minute", sum(len(s.serialize()) for s in klls),
         lambda window: merged(kll_doubles_sketch(200), klls, window).get_quantiles(list(ranks))),
        ("QuantileWave, rank error 0.02", wave.nbytes,
         lambda window: wave.quantiles(ranks, window, NOW).value),
    ]  # fmt: skip
    return compared("quantiles", contestants, errors, 2)


def counts(times, users):
    popular = np.unique(users, return_counts=True)
    items = np.sort(popular[0][np.argsort(-popular[1])[:200]])
    inside = [users[times > NOW - window] for window in WINDOWS]
    truth = [np.bincount(np.searchsorted(items, each[np.isin(each, items)]), minlength=items.size)
             for each in inside]  # fmt: skip

    def errors(said):
        pairs = zip(said, truth, inside, strict=True)
        return np.concatenate([(found - exact) / each.size for found, exact, each in pairs])

    def estimates(window):
        union = merged(count_min_sketch(3, 272), tables, window)
        return np.array([union.get_estimate(item) for item in items.tolist()])

    tables = per_minute(times, lambda part: each_fed(count_min_sketch(3, 272), users[part]))
    ecm = EcmSketch(relative_error=0.02)
    ecm.update_many(users, at=times)
    contestants = [
        ("count-min 3 × 272, per minute", sum(len(s.serialize()) for s in tables), estimates),
        ("EcmSketch, ε = 0.02", ecm.nbytes, lambda w: ecm.query_many(items, w, NOW).value),
    ]  # fmt: skip
    return compared("counts of 200 users", contestants, errors, 1)


def main():
    times, users, values = events()
    rows = [*distinct(times, users), *quantiles(times, values), *counts(times, users)]
    columns = ["question", "by", "bytes", "error, root mean square", "ms per answer"]
    write_table("peers", columns, rows)


if __name__ == "__main__":
    main()
