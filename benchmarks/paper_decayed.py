"""The experiments of Cormode, Tirthapura & Xu 2009 (*Time-Decaying Sketches*, §5), repeated.

``python paper_decayed.py [events]`` uses requests shaped like those of the World Cup of 1998, after
the four steps of §5.1. Tables are written to ``results/paper_decayed_*.tsv``, pictures to
``../docs``. The paper had 32 355 332 elements, of which 24 498 894 are distinct, in a day.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache

import matplotlib.pyplot as plt
import numpy as np

from harness import feed, save, write_table
from recency import DecayedSample
from recency.decay import Exponential, Polynomial, SlidingWindow

ERROR = 0.05
CONSTANTS = (1, 2, 5, 10, 20)  # C: samples have C/ε² elements
TRIALS = 10
PER_SECOND = 32_355_332 / 86_400
BATCH = 100_000


def exponential(beta):
    return Exponential(rate=beta / np.log(2))  # e^−βx


def window(seconds):
    return SlidingWindow(seconds + 1)  # whose age is at most that


DECAYS = {
    "window 200 s": window(200),
    "polynomial 1": Polynomial(1),
    "exponential 0.01": exponential(0.01),
}
PREDICATES = {f"v/w ≥ {k}": (lambda v, w, k=k: v >= k * w) for k in (2, 3, 4)}


class Trace:
    """Elements in order of arrival, some of them several times; questions follow the last one."""

    def __init__(self, events, seed=58):
        rng = np.random.default_rng(seed)
        seconds = np.sort(rng.integers(0, int(events / PER_SECOND) + 1, events))
        clients = np.minimum(rng.zipf(1.2, events), 10**9) % 1_000_000
        servers = rng.choice(33, events, p=_busy(33))
        # Requests for a page come with others for what is on it: same second, client and server.
        again = np.flatnonzero(rng.random(events) < 0.07)
        again = again[again > 0]
        first = np.maximum.accumulate(
            np.where(np.isin(np.arange(events), again), -1, np.arange(events))
        )
        seconds, clients, servers = seconds[first], clients[first], servers[first]
        # Step 1: id, v, w, t. Step 2: elements with one id are made the same.
        ids = (seconds * 100 + clients % 100) * 100 + servers
        values = rng.lognormal(7.5, 1.4, events).astype(np.int64) % 10**9
        weights = (rng.zipf(1.1, events) * 7919) % 1000
        _, firsts, which = np.unique(ids, return_index=True, return_inverse=True)
        values, weights = values[firsts][which], weights[firsts][which]
        # Step 3: one log for each server, interleaved at random.
        logs = np.argsort(servers, kind="stable")
        order = np.empty(events, dtype=np.int64)
        order[np.argsort(rng.permutation(servers), kind="stable")] = logs
        self.ids, self.values, self.weights, self.times = (
            column[order] for column in (ids, values, weights, seconds)
        )
        # Step 4: processed 0 to 2 seconds later, and not before the one before it.
        self.now = int((self.times + rng.integers(0, 3, events)).max())
        self.firsts = np.unique(self.ids, return_index=True)[1]

    def exact(self, decay, is_whole):
        """Return values and decayed weights of the distinct elements."""
        values, weights, times = (
            each[self.firsts] for each in (self.values, self.weights, self.times)
        )
        decayed = weights * decay(self.now - times)
        return values, weights, np.floor(decayed) if is_whole else decayed

    def fed(self, sketch, events=None):
        """Return the sketch after all elements, and elements per second."""
        events = events or self.times.size
        columns = {
            "value": self.values, "at": self.times, "weight": self.weights, "id": self.ids
        }  # fmt: skip
        start = time.perf_counter()
        feed(sketch, columns, BATCH, events)
        return sketch, events / (time.perf_counter() - start)


def _busy(servers):
    load = 1 / np.arange(1, servers + 1) ** 0.3
    return load / load.sum()


@lru_cache(maxsize=1)
def trace_of(events):
    return Trace(events)


def capacity_of(constant, error=ERROR):
    return int(constant / error**2)


def errors_of(task):
    """Return the relative error of the sum, and the additive errors of the shares."""
    events, sampler, name, constant, seed = task
    trace, decay = trace_of(events), DECAYS[name]
    sketch = DecayedSample(
        ERROR, 2 / 3, decay, sampler=sampler, capacity=capacity_of(constant), seed=seed
    )
    sketch, rate = trace.fed(sketch)
    values, weights, decayed = trace.exact(decay, is_whole=sampler == "range")
    whole = decayed.sum()
    off = [sketch.query(now=trace.now).value / whole - 1]
    for holds in PREDICATES.values():
        truth = decayed[holds(values, weights)].sum() / whole
        off.append(sketch.selectivity(holds, now=trace.now).value - truth)
    return (*off, sketch._stored().times.size, sketch.nbytes, rate)


def accuracy(pool, events):
    """Figures 4.2 to 4.5: errors against C."""
    rows, dots = [], []
    settings = [
        (sampler, name, constant)
        for sampler in ("range", "uniform")
        for name in DECAYS
        for constant in CONSTANTS
    ]
    tasks = [(events, *each, seed) for each in settings for seed in range(TRIALS)]
    found = np.array(list(pool.map(errors_of, tasks))).reshape(len(settings), TRIALS, -1)
    for (sampler, name, constant), trials in zip(settings, found, strict=True):
        within = (np.abs(trials[:, :4]) <= ERROR).mean(axis=0).tolist()
        typical = np.sqrt((trials[:, :4] ** 2).mean(axis=0)).tolist()
        nodes, size, rate = trials[:, 4].mean(), trials[:, 5].mean(), trials[:, 6].max()
        rows.append((sampler, name, constant, *within, *typical, int(nodes), int(size), int(rate)))
        dots += [(sampler, name, constant, *trial) for trial in trials[:, :4].tolist()]
    questions = ["sum", *PREDICATES]
    columns = ["sampler", "decay", "C", *(f"within ε: {each}" for each in questions)]
    columns += [*(f"error: {each}" for each in questions), "nodes", "bytes", "per second"]
    write_table("paper_decayed_accuracy", columns, rows)
    return rows, dots


def space(trace):
    """Figure 4.6: nodes against C, also for a window of 25 hours, which answers for any decay."""
    rows = []
    decays = {**DECAYS, "window 25 h": window(25 * 3600)}
    for name, decay in decays.items():
        for constant in CONSTANTS:
            sketch = DecayedSample(decay=decay, sampler="range", capacity=capacity_of(constant))
            sketch, _ = trace.fed(sketch)
            rows.append((name, constant, sketch._stored().times.size, sketch.nbytes))
    for constant in CONSTANTS:
        for sampler in ("range", "uniform"):
            sketch, _ = trace.fed(DecayedSample(sampler=sampler, capacity=capacity_of(constant)))
            name = f"chosen when asked, {sampler}"
            rows.append((name, constant, sketch._stored().times.size, sketch.nbytes))
    write_table("paper_decayed_space", ["decay", "C", "nodes", "bytes"], rows)
    return rows


def speed(trace):
    """Figures 4.7 and 4.8: elements per second against C, ε and the degree of decay."""
    rows = []
    events = min(trace.times.size, 500_000)

    def add(figure, what, decay, x, capacity):
        for sampler in ("range", "uniform"):
            best = max(
                trace.fed(DecayedSample(decay=decay, sampler=sampler, capacity=capacity), events)[1]
                for _ in range(2)
            )
            rows.append((figure, what, x, sampler, int(best)))

    for name, decay in DECAYS.items():
        for constant in (2, 10, 60):
            add("4.7a: C", name, decay, constant, capacity_of(constant))
        for error in (0.05, 0.1, 0.2):
            add("4.7b: ε", name, decay, error, capacity_of(60, error))
    degrees = [("exponential", exponential, (0.01, 0.2, 0.4, 0.6, 0.8)),
               ("polynomial", Polynomial, (1.0, 1.5, 2.0, 2.5, 3.0)),
               ("window", window, (200, 400, 600, 800, 1000))]  # fmt: skip
    for name, make, values in degrees:
        for degree in values:
            add("4.8: degree", name, make(degree), degree, capacity_of(60))
    write_table("paper_decayed_speed", ["figure", "decay", "x", "sampler", "per second"], rows)
    return rows


def chosen_when_asked(task):
    """Relative errors under windows of many lengths; which of two levels answers is random."""
    events, sampler, seed = task
    trace = trace_of(events)
    sketch, rate = trace.fed(DecayedSample(ERROR, sampler=sampler, seed=seed))
    decays = [window(int(width)) for width in np.geomspace(100, trace.now, 24)]
    truths = [trace.exact(decay, is_whole=False)[2].sum() for decay in decays]
    start = time.perf_counter()
    answers = [sketch.query(decay, trace.now).value for decay in decays]
    took = (time.perf_counter() - start) / len(decays)
    off = np.array(answers) / truths - 1
    return (*off, sketch._keyed.state().body.entries, sketch.nbytes, rate, took)


def compare(pool, events):
    """The two samplers at their default capacity: variance, speed, bytes."""
    rows = []
    for sampler in ("range", "uniform"):
        tasks = [(events, sampler, seed) for seed in range(4 * TRIALS)]
        found = np.array(list(pool.map(chosen_when_asked, tasks)))
        off, (nodes, size, rate, took) = found[:, :-4], found[:, -4:].T
        typical = np.sqrt((off**2).mean(axis=0))
        rows.append((sampler, float(typical.mean()), float(typical.max()), int(nodes.mean()),
                     int(size.mean()), float((size / nodes).mean()), int(rate.max()),
                     float(took.min() * 1e3)))  # fmt: skip
    columns = ["sampler", "error, mean of 24 windows", "worst window", "nodes", "bytes"]
    columns += ["bytes per node", "elements per second", "ms per answer"]
    write_table("paper_decayed_samplers", columns, rows)
    return rows


def pictures(dots, sizes, speeds):
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), sharex=True)
    for column, name in enumerate(DECAYS):
        for sampler, colour, aside in (("range", "C0", 0.94), ("uniform", "C1", 1.06)):
            mine = [dot for dot in dots if dot[:2] == (sampler, name)]
            places = [dot[2] * aside for dot in mine]
            axes[0][column].plot(places, [dot[3] for dot in mine], f"{colour}.", label=sampler)
            for i in range(3):
                label = sampler if i == 0 else None
                axes[1][column].plot(
                    places, [dot[4 + i] for dot in mine], f"{colour}.", label=label
                )
        for row, what in enumerate(("sum, relative error", "shares, error")):
            axis = axes[row][column]
            for bound in (-ERROR, ERROR):
                axis.axhline(bound, color="k", linestyle=":")
            axis.set(xscale="log", title=f"{name}: {what}", xlabel="C", xticks=CONSTANTS)
            axis.set_xticklabels(CONSTANTS)
    axes[0][0].legend()
    save(figure, "paper_decayed_accuracy")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for name in dict.fromkeys(row[0] for row in sizes):
        chosen = [row for row in sizes if row[0] == name]
        axes[0].plot([r[1] for r in chosen], [r[2] for r in chosen], "o-", label=name)
    axes[0].set(xscale="log", yscale="log", xlabel="C", ylabel="nodes")
    axes[0].legend(fontsize=7)
    for axis, which in ((axes[1], "4.7a: C"), (axes[2], "4.8: degree")):
        for name in dict.fromkeys(row[1] for row in speeds if row[0] == which):
            for sampler, style in (("range", "o-"), ("uniform", "s--")):
                chosen = [r for r in speeds if (r[0], r[1], r[3]) == (which, name, sampler)]
                if which.startswith("4.8") and name == "window":
                    continue
                axis.plot([r[2] for r in chosen], [r[4] / 1e6 for r in chosen], style,
                          label=f"{name}, {sampler}")  # fmt: skip
        axis.set(xlabel=which[5:], ylabel="M elements per second", ylim=0)
        axis.legend(fontsize=6)
    save(figure, "paper_decayed_cost")


def claims(rows, sizes, speeds):
    """The claims of the paper, and whether they hold here."""
    ranges = [row for row in rows if row[0] == "range"]
    sums = float(np.mean([row[3] for row in ranges if row[2] == 2]))
    shares = float(np.mean([row[4:7] for row in ranges if row[2] == 1]))
    nodes = {(row[0], row[1]): row[2] for row in sizes}
    ratio = float(np.mean([nodes[name, 20] / nodes[name, 2] for name in DECAYS]))
    largest = all(
        nodes["window 25 h", each] >= nodes[name, each] for name in DECAYS for each in CONSTANTS
    )
    rates = {row[:4]: row[4] for row in speeds}
    by_constant = [
        rates["4.7a: C", n, 2, "range"] / rates["4.7a: C", n, 60, "range"] for n in DECAYS
    ]
    slowest = min(rate for (*_, sampler), rate in rates.items() if sampler == "range") / 1e6
    degrees = [rates["4.8: degree", "polynomial", x, "range"] for x in (1.0, 3.0)]
    table = [
        ("C = 2: part of the sums within ε", sums, "≥ 2/3", sums >= 2 / 3),
        ("C = 1: part of the shares within ε", shares, "≥ 2/3", shares >= 2 / 3),
        ("nodes, C = 20 over C = 2", ratio, "about 10", 8 <= ratio <= 12),
        ("a window of 25 h takes the most nodes", "", "", largest),
        ("speed at C = 2 over C = 60", min(by_constant), "> 2", min(by_constant) > 2),
        ("faster with a faster decay, polynomial 3 over 1", degrees[1] / degrees[0], "> 1",
         degrees[1] > degrees[0]),
        ("slowest, M elements per second", slowest, "0.015", slowest >= 0.015),
    ]  # fmt: skip
    write_table("paper_decayed_claims", ["claim", "measured", "paper", "holds"], table)


def main():
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    trace = trace_of(events)
    late = np.maximum.accumulate(trace.times) - trace.times
    print(f"{events:,} elements, {1 - trace.firsts.size / events:.1%} of them duplicates, "
          f"{np.mean(late):.1f} s late on average, {late.max()} s at most")  # fmt: skip
    with ProcessPoolExecutor(2) as pool:
        compare(pool, events)
        rows, dots = accuracy(pool, events)
    sizes, speeds = space(trace), speed(trace)
    claims(rows, sizes, speeds)
    pictures(dots, sizes, speeds)


if __name__ == "__main__":
    main()
