"""Measurements of the theorems of Gibbons & Tirthapura 2004 and Xu, Tirthapura & Busch 2008.

``python paper_waves.py [events]`` measures errors against the size of the window, space against ε
and against the length of the history, time per element, and unions over a tree of 256. Tables are
written to ``results/paper_waves_*.tsv``, a picture to ``../docs``.
"""

import math
import sys
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from harness import save, seconds, write_table
from recency import DeterministicWave, QuantileWave, RandomizedWave, SumWave, merge_all
from recency.core.rank_log import WAVE

ERRORS = (0.2, 0.1, 0.05, 0.02)
DOUBT = 0.05
TRIALS = 10
PARTIES = 256


class Stream:
    """Numbers up to 99, visitors by Zipf's law, some events at one time, up to 500 ticks late."""

    def __init__(self, events, seed=4):
        rng = np.random.default_rng(seed)
        self.size = events
        self.in_order = np.cumsum(rng.integers(0, 3, events))
        self.late = self.in_order - rng.integers(0, 500, events)
        self.numbers = rng.integers(0, 100, events)
        self.visitors = rng.zipf(1.3, events) % 10_000_000
        self.ids = np.arange(events)
        self.latest = int(self.late.max())


def waves(error, seed=0):
    """Return one wave of each class, for an error bound."""
    return {
        "DeterministicWave": DeterministicWave(None, error),
        "RandomizedWave": RandomizedWave(None, error, seed=seed),
        "SumWave": SumWave(None, error, seed=seed),
        "QuantileWave": QuantileWave(None, error, seed=seed),
    }


def columns_of(name, stream, part=slice(None)):
    """Return the arguments of ``update_many`` for a wave."""
    times = stream.in_order if name == "DeterministicWave" else stream.late
    given = {"at": times[part]}
    if name == "RandomizedWave":
        return {**given, "item": stream.visitors[part]}
    if name != "DeterministicWave":
        given["id"] = stream.ids[part]
    return {**given, "value": stream.numbers[part]}


def fed(name, wave, stream, part=slice(None)):
    wave.update_many(**columns_of(name, stream, part))
    wave.to_bytes()
    return wave


def exact(name, stream, width):
    if name == "DeterministicWave":
        return float(stream.numbers[stream.in_order > stream.in_order[-1] - width].sum())
    recent = stream.late > stream.latest - width
    if name == "RandomizedWave":
        return float(np.unique(stream.visitors[recent]).size)
    numbers = stream.numbers[recent]
    return float(numbers.sum()) if name == "SumWave" else np.sort(numbers)


def error_of(name, wave, width, truth):
    """Return the relative error; for the median, by how much its rank differs from 1/2."""
    if name != "QuantileWave":
        return abs(wave.query(window=width).value / truth - 1)
    median = wave.query(0.5, width).value
    low, high = (np.searchsorted(truth, median, side) / truth.size for side in ("left", "right"))
    return max(low - 0.5, 0.5 - high, 0.0)


def errors(stream):
    """Errors against the size of the window, ε = 0.05: the guarantee is for every one of them."""
    rows = []
    widths = [10**i for i in range(2, int(math.log10(stream.latest)) + 1)]
    truths = {(name, width): exact(name, stream, width) for name in waves(0.1) for width in widths}
    off = {key: [] for key in truths}
    for seed in range(TRIALS):
        for name, wave in waves(0.05, seed).items():
            if name == "DeterministicWave" and seed:
                continue
            fed(name, wave, stream)
            for width in widths:
                off[name, width].append(error_of(name, wave, width, truths[name, width]))
    for (name, width), found in off.items():
        rows.append((name, width, float(np.mean(found)), float(np.max(found)), 0.05))
    write_table("paper_waves_errors", ["wave", "window", "mean error", "largest", "ε"], rows)
    return rows


def papers_capacity(name, error):
    """Return the entries per level, or in all samples of a level, by the papers' constants.

    Gibbons & Tirthapura 2004, §3.2 and Lemma 3: ⌈(1/ε + 1)/2⌉ positions for counting; 36/ε² in
    each of O(log 1/δ) instances, whose median fails with δ if each fails with 1/3. Xu et al. 2008,
    §2.2, §3: 12 ln(8/δ)/ε² and 96 ln(8/δ)/ε².
    """
    match name:
        case "DeterministicWave":
            return math.ceil((1 / error + 1) / 2)
        case "RandomizedWave":
            return math.ceil(36 / error**2) * _copies(1 / 3, DOUBT)
        case "SumWave":
            return math.ceil(12 * math.log(8 / DOUBT) / error**2)
        case _:
            return math.ceil(96 * math.log(8 / DOUBT) / error**2)


def _copies(each, doubt):
    """Return the number of instances whose median fails with probability at most δ."""
    copies = 1
    while doubt < sum(
        math.comb(copies, k) * each**k * (1 - each) ** (copies - k)
        for k in range(copies // 2 + 1, copies + 1)
    ):
        copies += 2
    return copies


def space_against_error(stream):
    """Bytes against ε, and elements per level, compared with those of the papers."""
    rows = []
    for error in ERRORS:
        for name, wave in waves(error).items():
            fed(name, wave, stream)
            is_deterministic = name == "DeterministicWave"
            ours = WAVE.tightness(error) if is_deterministic else wave.config.capacity
            theirs = papers_capacity(name, error)
            rows.append((name, error, wave.nbytes, ours, theirs, theirs / ours))
    columns = ["wave", "ε", "bytes", "per level, ours", "per level, papers", "ratio"]
    write_table("paper_waves_sizes", columns, rows)
    return rows


def space_against_history(stream):
    """Bytes, and nanoseconds per element, against the length of the stream; ε = 0.1."""
    rows = []
    length = 10_000
    while length <= stream.size:
        for name, empty in waves(0.1).items():
            part = slice(0, length)
            took = seconds(lambda: fed(name, empty.empty_like(), stream, part), 3)
            size = fed(name, empty, stream, part).nbytes
            rows.append((name, length, size, took / length * 1e9))
        length *= 4
    write_table("paper_waves_history", ["wave", "events", "bytes", "ns per element"], rows)
    return rows


def tree(stream):
    """256 parties in a binary tree: does the union equal one party that sees all events?"""
    rows = []
    rng = np.random.default_rng(9)
    party = rng.integers(0, PARTIES, stream.size)
    for name in waves(0.1):
        whole = fed(name, waves(0.1)[name], stream)
        leaves = [fed(name, waves(0.1)[name], stream, party == i) for i in range(PARTIES)]
        width = stream.latest // 3
        truth = exact(name, stream, width)
        if name == "DeterministicWave":
            total = sum(leaf.query(width, int(stream.in_order[-1])) for leaf in leaves)
        while len(leaves) > 1:
            leaves = [merge_all(leaves[i : i + 2]) for i in range(0, len(leaves), 2)]
        root = leaves[0]
        same = root == whole
        alone, merged = (error_of(name, each, width, truth) for each in (whole, root))
        rows.append((name, "merged", same, alone, merged, root.guarantee))
        if name == "DeterministicWave":
            rows.append((name, "answers added up", "", alone, abs(total.value / truth - 1), 0.1))
    columns = ["wave", "how", "same bytes", "error, one party", "error, 256", "guarantee"]
    write_table("paper_waves_tree", columns, rows)
    return rows


def claims(found, sizes, history, union):
    """The theorems of the papers, and the measurements."""
    table = []
    for name in waves(0.1):
        largest = max(row[3] for row in found if row[0] == name)
        late = sum(row[3] > 0.05 for row in found if row[0] == name)
        is_certain = name == "DeterministicWave"
        what = f"{name}: largest error over windows and seeds, as a share of ε"
        table.append((what, largest / 0.05, "≤ 1" if is_certain else "≤ 1, mostly", late <= 1))
    for name in waves(0.1):
        mine = [row for row in history if row[0] == name and row[1] >= 40_000]
        steps = [later[2] - earlier[2] for earlier, later in pairwise(mine)]
        uneven = max(steps) / (sum(steps) / len(steps))
        what = f"{name}: bytes added by four times the history, largest over mean"
        table.append((what, uneven, "1 (log growth)", uneven <= 1.5))
    for name in waves(0.1):
        mine = [row[3] for row in history if row[0] == name and row[1] >= 160_000]
        ratio = mine[-1] / mine[0]
        what = f"{name}: amortised time per element, longest stream over 160 000"
        table.append((what, ratio, "1 (amortised O(1))", ratio <= 1.5))
    for row in union:
        if row[1] == "merged" and row[0] != "DeterministicWave":
            what = f"{row[0]}: union over a tree of 256 is lossless"
            table.append((what, "same bytes" if row[2] else "other bytes", "lossless", row[2]))
        elif row[1] == "merged":
            what = f"{row[0]}: error after a tree of 256, as a share of its guarantee"
            table.append((what, row[4] / row[5], "", row[4] <= row[5]))
        else:
            what = f"{row[0]}: 256 answers added up, error as a share of ε"
            table.append((what, row[4] / row[5], "≤ 1", row[4] <= row[5]))
    write_table("paper_waves_claims", ["claim", "measured", "papers", "holds"], table)


def pictures(found, sizes, history):
    figure, axes = plt.subplots(1, 4, figsize=(16, 4))
    for i, name in enumerate(waves(0.1)):
        mine = [row for row in found if row[0] == name]
        axes[0].plot([r[1] for r in mine], [max(r[3], 1e-4) for r in mine], f"C{i}o-", label=name)
        mine = [row for row in sizes if row[0] == name]
        axes[1].plot([r[1] for r in mine], [r[2] for r in mine], f"C{i}o-", label=name)
        mine = [row for row in history if row[0] == name]
        axes[2].plot([r[1] for r in mine], [r[2] / 1e3 for r in mine], f"C{i}o-")
        axes[3].plot([r[1] for r in mine], [r[3] for r in mine], f"C{i}o-")
    axes[0].axhline(0.05, color="k", linestyle=":")
    axes[0].set(xscale="log", yscale="log", xlabel="window, ticks", title="largest error, ε = 0.05")
    axes[1].set(xscale="log", yscale="log", xlabel="ε", title="bytes")
    axes[2].set(xscale="log", xlabel="events", title="KB, ε = 0.1", ylim=0)
    axes[3].set(xscale="log", xlabel="events", title="ns per element, ε = 0.1", ylim=0)
    axes[1].legend(fontsize=7)
    save(figure, "paper_waves")


def main():
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 3_000_000
    stream = Stream(events)
    found = errors(stream)
    sizes = space_against_error(stream)
    history = space_against_history(stream)
    union = tree(stream)
    claims(found, sizes, history, union)
    pictures(found, sizes, history)


if __name__ == "__main__":
    main()
