"""The experiments of Cormode, Tirthapura & Xu 2009 (*Correlated Aggregates*, §5), repeated.

``python paper_correlated.py [events]`` uses requests of one day, shaped like those of the World Cup
(client, size modulo 100, second), and uniform random data. Tables are written to
``results/paper_correlated_*.tsv``, pictures to ``../docs``. The paper had 33 695 769 elements in
each.
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np

from harness import save, write_table
from recency import DecayedSample, WeightBasedMergingHistogram
from recency.core.sizing import capacity_for_count
from recency.decay import Polynomial, SlidingWindow

DECAY = Polynomial(1.5)  # 1/(x + 1)^1.5
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of values, as thresholds
MAX_VALUE, MAX_WEIGHT, MAX_TIME = 1_823_218, 99, 898_293_600
TRIALS = 5
BATCH = 100_000


class Data:
    """Elements in order of arrival, and the thresholds to ask about."""

    def __init__(self, name, values, weights, times, window):
        self.name, self.window = name, window
        self.values, self.weights, self.times = values, weights, times
        self.now = int(times.max())
        self.thresholds = np.quantile(values, QUANTILES, method="lower").tolist()

    def exact(self, decay, thresholds):
        """Return the decayed sum of all elements, and those from each threshold on."""
        decayed = self.weights * decay(self.now - self.times)
        return decayed.sum(), [float(decayed[self.values >= each].sum()) for each in thresholds]

    def fed(self, sketch):
        """Return the sketch after all elements, and elements per second."""
        start = time.perf_counter()
        for begin in range(0, self.times.size, BATCH):
            part = slice(begin, begin + BATCH)
            ids = np.arange(begin, begin + self.times[part].size)  # no two elements are the same
            columns = {"at": self.times[part], "weight": self.weights[part], "id": ids}
            sketch.update_many(self.values[part], **columns)
        sketch.query()
        return sketch, self.times.size / (time.perf_counter() - start)


def world_cup(events, seed=619):
    """One day: clients by Zipf's law, a daily cycle, and interleaved logs of servers."""
    rng = np.random.default_rng(seed)
    clients = np.minimum(rng.zipf(1.4, events), 10**12) * 7919 % MAX_VALUE + 1
    day = rng.integers(0, 86_400, 3 * events)
    day = day[rng.random(day.size) < 0.5 + 0.45 * np.sin(2 * np.pi * day / 86_400)][:events]
    times = MAX_TIME - 86_400 + np.sort(day)
    late = rng.permutation(times.size) % 30  # each server is a little behind another
    order = np.argsort(times + late, kind="stable")
    sizes = rng.lognormal(8, 1.5, times.size).astype(np.int64) % (MAX_WEIGHT + 1)
    return Data("worldcup-like", clients[: times.size], sizes, times[order], 3600)


def synthetic(events, seed=45):
    """All uniform, in random order."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, MAX_VALUE + 1, events)
    weights = rng.integers(1, MAX_WEIGHT + 1, events)
    return Data("synthetic", values, weights, rng.integers(1, MAX_TIME + 1, events), 45_000_000)


def additive(sets):
    """Figure 8: error as a share of the whole against space, under a sliding window; throughput."""
    rows = []
    for data in sets:
        decay = SlidingWindow(data.window)
        whole, truths = data.exact(decay, data.thresholds)
        for capacity in (100, 200, 400, 800, 1600, 3200):
            errors, space, size, rates = [], [], [], []
            for seed in range(TRIALS):
                sketch, rate = data.fed(DecayedSample(capacity=capacity, seed=seed))
                answers = [sketch.correlated_sum(each, decay).value for each in data.thresholds]
                errors.append(np.abs(np.array(answers) - truths) / whole)
                space.append(sketch._stored().times.size)
                size.append(sketch.nbytes)
                rates.append(rate)
            mean = np.mean(errors, axis=0).tolist()
            guarantee = sketch.guarantee
            rows.append((data.name, capacity, int(np.mean(space)), int(np.mean(size)), *mean,
                         float(np.max(errors)), guarantee, int(max(rates))))  # fmt: skip
    columns = ["data", "capacity", "nodes", "bytes", *(f"τ {q:.0%}" for q in QUANTILES)]
    write_table("paper_correlated_figure8", [*columns, "largest", "guarantee", "per second"], rows)
    return rows


def relative(sets):
    """Figure 9: relative error against space, f = (x + 1)^−1.5; throughput.

    It also has the paper's split of ε: regions of 1 + ε/2, and samples for ε/2.
    """
    rows = []
    for data in sets:
        _, truths = data.exact(DECAY, data.thresholds)
        for error in (0.4, 0.2, 0.1, 0.05):
            for how in ("ours", "paper's split"):
                if how != "ours" and error < 0.1:
                    continue  # some hundred megabytes
                other = {"spread": error / 2, "capacity": capacity_for_count(error / 2, 0.05)}
                chosen = {} if how == "ours" else other
                errors, space, size, rates = [], [], [], []
                for seed in range(TRIALS if how == "ours" else 1):
                    made = WeightBasedMergingHistogram(DECAY, error, seed=seed, **chosen)
                    sketch, rate = data.fed(made)
                    answers = [sketch.query(each).value for each in data.thresholds]
                    errors.append(np.abs(np.array(answers) / truths - 1))
                    space.append(sketch._keyed.state().body.entries)
                    size.append(sketch.nbytes)
                    rates.append(rate)
                rows.append((data.name, how, error, len(sketch.buckets), int(np.mean(space)),
                             int(np.mean(size)), *np.mean(errors, axis=0).tolist(),
                             float(np.max(errors)), int(max(rates))))  # fmt: skip
    columns = ["data", "sketch", "ε", "buckets", "nodes", "bytes"]
    columns += [f"τ {q:.0%}" for q in QUANTILES]
    write_table("paper_correlated_figure9", [*columns, "largest", "per second"], rows)
    return rows


def rare(data):
    """The difference of both guarantees: the error of S_τ, relative to itself, as τ increases."""
    decay = Polynomial(1.5, scale=3600)
    shares = (0.5, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
    thresholds = np.quantile(data.values, 1 - np.array(shares), method="lower").tolist()
    whole, truths = data.exact(decay, thresholds)
    errors = {"DecayedSample": [], "WeightBasedMergingHistogram": []}
    for seed in range(4 * TRIALS):
        sample, _ = data.fed(DecayedSample(0.1, seed=seed))
        histogram, _ = data.fed(WeightBasedMergingHistogram(decay, 0.1, seed=seed))
        for name, answers in [
            ("DecayedSample", [sample.correlated_sum(t, decay).value for t in thresholds]),
            ("WeightBasedMergingHistogram", [histogram.query(t).value for t in thresholds]),
        ]:
            errors[name].append(np.abs(np.array(answers) / truths - 1))
    rows = []
    sizes = {"DecayedSample": sample.nbytes, "WeightBasedMergingHistogram": histogram.nbytes}
    for name, trials in errors.items():
        typical = np.sqrt(np.mean(np.square(trials), axis=0))
        for truth, off in zip(truths, typical.tolist(), strict=True):
            rows.append((name, sizes[name], truth / whole, off))
    write_table("paper_correlated_rare", ["sketch", "bytes", "share", "relative error"], rows)
    return rows


def pictures(figure8, figure9, rows):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    for name, style in (("worldcup-like", "o-"), ("synthetic", "s--")):
        chosen = [row for row in figure8 if row[0] == name]
        for i, q in enumerate(QUANTILES):
            label = f"{name}, τ {q:.0%}" if name == "synthetic" else None
            axes[int(name == "synthetic")].plot(
                [row[2] for row in chosen], [row[4 + i] for row in chosen], f"C{i}{style}",
                label=label,
            )  # fmt: skip
        axes[2].plot([row[2] for row in chosen], [row[-1] / 1e6 for row in chosen], style,
                     label=name)  # fmt: skip
    for axis, title in zip(axes, ("worldcup-like", "synthetic"), strict=False):
        axis.set(xscale="log", yscale="log", xlabel="nodes", ylabel="error / whole", title=title)
    axes[1].legend(fontsize=7)
    axes[2].set(xscale="log", xlabel="nodes", ylabel="M elements per second", ylim=0)
    axes[2].legend(fontsize=7)
    save(figure, "paper_correlated_additive")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for name, colour in (("worldcup-like", "C0"), ("synthetic", "C1")):
        for how, style in (("ours", "o-"), ("paper's split", "^:")):
            chosen = [row for row in figure9 if row[:2] == (name, how)]
            label = f"{name}, {how}"
            # An error of 0 has no place on a logarithmic scale.
            axes[0].plot([row[4] for row in chosen], [max(row[11], 1e-7) for row in chosen],
                         colour + style, label=label)  # fmt: skip
            axes[1].plot([row[4] for row in chosen], [row[-1] / 1e6 for row in chosen],
                         colour + style, label=label)  # fmt: skip
    axes[0].set(xscale="log", yscale="log", xlabel="nodes", ylabel="largest relative error")
    axes[1].set(xscale="log", xlabel="nodes", ylabel="M elements per second", ylim=0)
    axes[0].legend(fontsize=7)
    save(figure, "paper_correlated_relative")
    figure, axis = plt.subplots(figsize=(6.5, 4))
    for name, style in (("DecayedSample", "C1s--"), ("WeightBasedMergingHistogram", "C0o-")):
        chosen = [row for row in rows if row[0] == name]
        size = chosen[0][1]
        # Less than a thousandth, or none at all, is shown as that.
        axis.plot([r[2] for r in chosen], [max(r[3], 1e-3) for r in chosen], style,
                  label=f"{name}, {size / 1e3:,.0f} KB")  # fmt: skip
    axis.axhline(0.1, color="k", linestyle=":", label="ε = 0.1")
    axis.set(xscale="log", yscale="log", xlabel="share of the sum that is above τ")
    axis.set(ylabel="error of that part, relative to itself", title="decay 1/(1 + hours)^1.5")
    axis.legend(fontsize=8)
    save(figure, "correlated")


def claims(figure8, figure9):
    """The claims of the paper, and whether they hold here."""
    rows = []
    worst = max(row[9] / row[10] for row in figure8)
    rows.append(("largest additive error, as a share of ε", worst, "≤ 1", worst <= 1))
    for name in ("worldcup-like", "synthetic"):
        chosen = [row for row in figure8 if row[0] == name]
        nodes, errors = (np.log([np.mean(row[i:j]) for row in chosen]) for i, j in ((2, 3), (4, 9)))
        slope = float(np.polyfit(nodes, errors, 1)[0])
        close = abs(slope + 0.5) < 0.15
        rows.append((f"slope of log error over log space, {name}", slope, "−0.5", close))
        slowest = min(row[-1] for row in chosen) / 1e6
        rows.append((f"additive, M elements/s, {name}", slowest, "0.25–0.35", slowest >= 0.25))
    ours = [row for row in figure9 if row[1] == "ours"]
    worst = max(row[11] / row[2] for row in ours)
    rows.append(("largest relative error, as a share of ε", worst, "≤ 1", worst <= 1))
    slowest = min(row[-1] for row in ours) / 1e6
    rows.append(("relative, M elements/s, slowest", slowest, "≤ 0.035", slowest >= 0.035))
    for name in ("worldcup-like", "synthetic"):
        sizes = {row[1]: row[5] for row in figure9 if row[0] == name and row[2] == 0.1}
        ratio = sizes["paper's split"] / sizes["ours"]
        rows.append((f"bytes with the paper's split of ε / ours, ε = 0.1, {name}", ratio, "", ""))
    write_table("paper_correlated_claims", ["claim", "measured", "paper", "holds"], rows)


def main():
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    sets = [world_cup(events), synthetic(events)]
    for data in sets:
        inside = (data.times > data.now - data.window).sum()
        print(f"{data.name}: {data.times.size:,} elements, {inside:,} in the window")
    figure8, figure9 = additive(sets), relative(sets)
    rows = rare(sets[0])
    claims(figure8, figure9)
    pictures(figure8, figure9, rows)


if __name__ == "__main__":
    main()
