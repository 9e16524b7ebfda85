"""The experiments of Papapetrou, Garofalakis & Deligiannakis 2012 (§7), on similar traces.

``python paper_ecm.py [events]`` uses a Zipf trace shaped like that of the World Cup of 1998 (33
servers, 89 997 pages, a window of 10⁶ seconds) and the flights out of New York in 2013 (aircraft as
items, airlines as servers). Tables are written to ``results/paper_ecm_*.tsv``, pictures to
``../docs``.
"""

import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from harness import save, write_table
from recency import EcmSketch, merge_all

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from demo import load_flights

ERRORS = (0.05, 0.1, 0.15, 0.2, 0.25)
CONFIDENCE = 0.9  # δ = 0.1
WINDOW = 10**6  # seconds
NAMES = {"eh": "ECM-EH", "dw": "ECM-DW", "rw": "ECM-RW"}


class Trace:
    """Events in time order: items, times, servers."""

    def __init__(self, name, items, times, servers):
        self.name = name
        order = np.argsort(times, kind="stable")
        self.items, self.times, self.servers = items[order], times[order], servers[order]
        self.latest = int(self.times[-1])
        self.ranges = [10**i for i in range(1, 7)]
        self.truth = {width: self._counts(width) for width in self.ranges}

    def _counts(self, width):
        return np.unique(self.items[self.times > self.latest - width], return_counts=True)

    def of_server(self, server):
        rows = self.servers == server
        return self.items[rows], self.times[rows]

    def split(self, servers, seed=0):
        """Return the same events with another number of servers."""
        which = np.random.default_rng(seed).integers(0, servers, self.items.size)
        return Trace(self.name, self.items, self.times, which)


def world_cup(events, seed=98):
    """Requests with daily cycles over 18 days: Zipf's law over pages, servers of unequal load."""
    rng = np.random.default_rng(seed)
    pages, servers = 89_997, 33
    weights = 1 / np.arange(1, pages + 1) ** 0.95
    items = rng.permutation(pages)[rng.choice(pages, events, p=weights / weights.sum())]
    day = 86_400
    times = rng.integers(0, 18 * day, 2 * events)
    kept = rng.random(times.size) < 0.5 + 0.45 * np.sin(2 * np.pi * times / day)
    times = times[kept][:events]
    busy = 1 / np.arange(1, servers + 1) ** 0.3
    return Trace(
        "wc'98-like",
        items[: times.size],
        times,
        rng.choice(servers, times.size, p=busy / busy.sum()),
    )


def flights():
    data = load_flights()
    _, items = np.unique(data.tail_number, return_inverse=True)
    _, servers = np.unique(data.carrier, return_inverse=True)
    return Trace("flights", items, data.departed, servers)


def point_errors(sketch, trace):
    """Return |estimate − truth| / total over all items in each range: the mean, and the largest."""
    average, largest = [], []
    for width in trace.ranges:
        items, counts = trace.truth[width]
        off = np.abs(sketch.query_many(items, width, trace.latest).value - counts) / counts.sum()
        average.append(off.mean())
        largest.append(off.max())
    return float(np.mean(average)), float(np.max(largest))


def join_errors(sketch, trace):
    """Return the same for self-joins, relative to the square of the total."""
    off = []
    for width in trace.ranges:
        _, counts = trace.truth[width]
        truth = float((counts.astype(np.float64) ** 2).sum())
        answer = sketch.self_join(width, trace.latest).value
        off.append(abs(answer - truth) / float(counts.sum()) ** 2)
    return float(np.mean(off)), float(np.max(off))


QUESTIONS = {"point": ("point", point_errors), "self-join": ("inner_product", join_errors)}


def made(trace, error, counter, question, events=None):
    optimize_for, _ = QUESTIONS[question]
    sketch = EcmSketch(WINDOW, error, CONFIDENCE, counter=counter, optimize_for=optimize_for)
    items, times = events or (trace.items, trace.times)
    if items.size:
        sketch.update_many(items, at=times)
    sketch.total()
    return sketch


def leaves_of(trace, error, counter, question):
    optimize_for, _ = QUESTIONS[question]
    prototype = EcmSketch(WINDOW, error, CONFIDENCE, counter=counter, optimize_for=optimize_for)
    leaves = []
    for server in np.unique(trace.servers):
        leaf = prototype.empty_like(stream=int(server))
        items, times = trace.of_server(server)
        leaf.update_many(items, at=times)
        leaves.append(leaf)
    return leaves


def up_a_binary_tree(sketches):
    """Return the root, and the bytes sent: every sketch but the root, once."""
    sent = 0
    while len(sketches) > 1:
        sent += sum(sketch.nbytes for sketch in sketches)
        pairs = [sketches[i : i + 2] for i in range(0, len(sketches), 2)]
        sketches = [merge_all(pair) if len(pair) > 1 else pair[0] for pair in pairs]
    return sketches[0], sent


def centralized(traces):
    """Figure 4: error against memory."""
    rows = []
    for trace in traces:
        for question, (_, errors) in QUESTIONS.items():
            for counter in ("eh", "dw", "rw"):
                if counter == "rw" and question == "self-join":
                    continue
                for error in ERRORS:
                    sketch = made(trace, error, counter, question)
                    average, largest = errors(sketch, trace)
                    name = NAMES[counter]
                    size = sketch.nbytes
                    rows.append((trace.name, question, name, error, size, average, largest))
    columns = ["trace", "question", "sketch", "ε", "bytes", "average error", "largest error"]
    write_table("paper_ecm_figure4", columns, rows)
    return rows


def update_rates(traces):
    """Table 3: updates per second, ε = 0.1."""
    rows = []
    for trace in traces:
        rates = []
        for counter in NAMES:
            best = 0.0
            for _ in range(2):
                start = time.perf_counter()
                made(trace, 0.1, counter, "point")
                best = max(best, trace.items.size / (time.perf_counter() - start))
            rates.append(int(best))
        rows.append((trace.name, *rates))
    write_table("paper_ecm_table3", ["trace", *NAMES.values()], rows)
    return rows


def distributed(traces):
    """Table 4 and Figure 5: a binary tree of servers, compared with one sketch of all events."""
    rows = []
    for trace in traces:
        for question, counter in (("point", "eh"), ("self-join", "eh"), ("point", "rw")):
            _, errors = QUESTIONS[question]
            for error in ERRORS if counter == "eh" else ERRORS[1::2]:
                alone = errors(made(trace, error, counter, question), trace)
                root, sent = up_a_binary_tree(leaves_of(trace, error, counter, question))
                merged = errors(root, trace)
                name = NAMES[counter]
                ratio = merged[0] / alone[0]
                what = (trace.name, question, name, error)
                rows.append((*what, alone[0], merged[0], ratio, merged[1], sent))
    columns = ["trace", "question", "sketch", "ε", "centralized", "distributed", "ratio"]
    write_table("paper_ecm_table4", [*columns, "largest distributed", "bytes sent"], rows)
    return rows


def network_sizes(traces):
    """Figure 6: 1 to 256 servers, ε = 0.1."""
    rows = []
    for trace in traces:
        for servers in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            split = trace.split(servers)
            for question in QUESTIONS:
                root, sent = up_a_binary_tree(leaves_of(split, 0.1, "eh", question))
                average, largest = QUESTIONS[question][1](root, trace)
                rows.append((trace.name, question, servers, sent, average, largest, root.guarantee))
    columns = ["trace", "question", "servers", "bytes sent", "average error", "largest error"]
    write_table("paper_ecm_figure6", [*columns, "guarantee"], rows)
    return rows


def pictures(traces, figure4, table4, figure6):
    figure, axes = plt.subplots(2, 2, figsize=(11, 8))
    for row, trace in enumerate(traces):
        for column, question in enumerate(QUESTIONS):
            axis = axes[row][column]
            for name, colour in zip(NAMES.values(), ("C0", "C1", "C2"), strict=True):
                chosen = [r for r in figure4 if r[:3] == (trace.name, question, name)]
                if chosen:
                    sizes = [r[4] / 1e3 for r in chosen]
                    axis.plot(sizes, [r[5] for r in chosen], f"{colour}o-", label=f"{name} average")
                    axis.plot(
                        sizes, [r[6] for r in chosen], f"{colour}^--", label=f"{name} largest"
                    )
            sizes = [r[4] / 1e3 for r in figure4 if r[:3] == (trace.name, question, "ECM-EH")]
            axis.plot(sizes, ERRORS, "k:", label="ε, of ECM-EH")
            axis.set(xscale="log", yscale="log", title=f"{trace.name}, {question}")
            axis.set(xlabel="KB", ylabel="error / total")
    axes[0][0].legend(fontsize=7)
    save(figure, "paper_ecm_memory")
    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    for trace, colour in zip(traces, ("C0", "C1"), strict=True):
        for question, style in (("point", "o-"), ("self-join", "s--")):
            chosen = [r for r in table4 if r[:3] == (trace.name, question, "ECM-EH")]
            label = f"{trace.name}, {question}"
            axes[0].plot([r[8] / 1e6 for r in chosen], [r[5] for r in chosen], colour + style,
                         label=label)  # fmt: skip
            sizes = [r for r in figure6 if r[:2] == (trace.name, question)]
            axes[1].plot([r[2] for r in sizes], [r[4] for r in sizes], colour + style, label=label)
            axes[2].plot([r[2] for r in sizes], [r[3] / 1e6 for r in sizes], colour + style)
    axes[0].set(xlabel="MB sent", ylabel="average error", xscale="log", title="ε from 0.25 to 0.05")
    axes[1].set(xlabel="servers", ylabel="average error", xscale="log", title="ε = 0.1", ylim=0)
    axes[2].set(xlabel="servers", ylabel="MB sent", xscale="log", yscale="log", title="ε = 0.1")
    axes[0].legend(fontsize=7)
    save(figure, "paper_ecm_network")


def claims(figure4, table4):
    """The claims of the paper, and whether they hold here."""
    worst = max(row[6] / row[3] for row in figure4)
    ratio = max(row[6] for row in table4)
    share = max(row[7] / row[3] for row in table4)
    sizes = {row[:4]: row[4] for row in figure4 if row[1] == "point"}

    def against_eh(other, trace):
        """Return sizes as multiples of those of ECM-EH."""
        return [
            size / sizes[(name, question, "ECM-EH", error)]
            for (name, question, sketch, error), size in sizes.items()
            if (sketch, name) == (other, trace)
        ]

    rows = [
        ("largest observed error, centralized, as a share of ε", worst, "≤ 1", worst <= 1),
        ("largest observed error, distributed, as a share of ε", share, "≤ 1", share <= 1),
        ("distributed / centralized average error, at most", ratio, "≤ 1.25", ratio <= 1.25),
    ]
    for trace in dict.fromkeys(row[0] for row in figure4):
        samples, waves = (against_eh(other, trace) for other in ("ECM-RW", "ECM-DW"))
        least, mean = min(samples), float(np.mean(waves))
        rows.append((f"bytes of ECM-RW / ECM-EH, {trace}, at least", least, "≥ 10", least >= 10))
        rows.append((f"the same, at ε = 0.25, {trace}", samples[-1], "≥ 10", samples[-1] >= 10))
        rows.append((f"bytes of ECM-DW / ECM-EH, {trace}, on average", mean, "about 2", mean > 1.5))
    write_table("paper_ecm_claims", ["claim", "measured", "paper", "holds"], rows)


def main():
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    traces = [world_cup(events), flights()]
    for trace in traces:
        seen = trace.truth[WINDOW][1]
        print(f"{trace.name}: {trace.items.size:,} events, {seen.sum():,} in the window, of")
        print(f"  {seen.size:,} items, {np.unique(trace.servers).size} servers")
    figure4 = centralized(traces)
    update_rates(traces)
    table4 = distributed(traces)
    figure6 = network_sizes(traces)
    claims(figure4, table4)
    pictures(traces, figure4, table4, figure6)


if __name__ == "__main__":
    main()
