"""Latency and throughput of the engine, compared with another version of the source.

``python bench_engine.py OTHER/src`` runs every case alternately with the other source and with this
one, in separate processes. It prints the ratio of times, this source over the other, as medians of
all rounds but the first. Without an argument it prints milliseconds for this source.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

ROUNDS = 5
HERE = Path(__file__).parents[1] / "src"
ROWS, KEYS = 1_000_000, 100_000


def sketches():
    from recency import (
        DecayedSample,
        DeterministicWave,
        DyadicEcm,
        EcmSketch,
        ExponentialHistogram,
        NthRecentWave,
        QuantileWave,
        RandomizedWave,
        SumWave,
        WeightBasedMergingHistogram,
    )
    from recency.decay import Exponential, Polynomial

    values = np.random.default_rng(0).integers(0, 1000, ROWS)
    none, value = {}, {"value": values}
    return {
        "ExponentialHistogram": (lambda: ExponentialHistogram(10**6), none),
        "DeterministicWave": (lambda: DeterministicWave(10**6), none),
        "NthRecentWave": (lambda: NthRecentWave(10**6), none),
        "RandomizedWave": (lambda: RandomizedWave(10**6), {"item": values * 7919}),
        "SumWave": (lambda: SumWave(10**6), value),
        "QuantileWave": (lambda: QuantileWave(10**6), value),
        "DecayedSample": (lambda: DecayedSample(window=10**6), value),
        "DecayedSample, fixed decay": (
            lambda: DecayedSample(decay=Exponential(half_life=10**5)),
            value,
        ),
        "EcmSketch": (lambda: EcmSketch(10**6), {"item": values}),
        "EcmSketch, rw": (lambda: EcmSketch(10**6, 0.1, counter="rw"), {"item": values}),
        "DyadicEcm": (lambda: DyadicEcm(10**6, universe_bits=16), {"item": values}),
        "WeightBasedMergingHistogram": (
            lambda: WeightBasedMergingHistogram(Polynomial(1, scale=1000), 0.1),
            value,
        ),
    }


ASKED = {
    "EcmSketch": {"item": 7},
    "EcmSketch, rw": {"item": 7},
    "DyadicEcm": {"item": 7},
}
SLOW = ("EcmSketch", "DyadicEcm", "DecayedSample, fixed decay", "WeightBasedMergingHistogram")


def cases():
    """Names and the calls to time; preparations are not timed."""
    from recency import Bank, EcmSketch, ExponentialHistogram, RandomizedWave, decode_many
    from recency.sketch import merge_all

    at = np.arange(ROWS)
    for name, (make, columns) in sketches().items():
        rows = ROWS // 4 if name.startswith(SLOW) else ROWS

        def fed(batch, rows, make=make, columns=columns):
            sketch = make()
            for begin in range(0, rows, batch):
                part = slice(begin, min(begin + batch, rows))
                sketch.update_many(at=at[part], **{k: v[part] for k, v in columns.items()})
            sketch.to_bytes()

        yield f"{name}: one call", lambda fed=fed, rows=rows: fed(rows, rows)
        yield f"{name}: calls of 10 000", lambda fed=fed, rows=rows: fed(10_000, rows)
        yield f"{name}: calls of 10", lambda fed=fed: fed(10, 20_000)

        sketch = make()
        sketch.update_many(at=at[:rows], **{k: v[:rows] for k, v in columns.items()})

        question = ASKED.get(name, {})
        one = {k: int(v[5]) for k, v in columns.items()}

        def ask(sketch=sketch, one=one, question=question):
            for _ in range(20):
                sketch.update(at=sketch.latest + 1, **one)
                sketch.query(**question)

        yield f"{name}: update, then question", ask

    keys = np.random.default_rng(1).integers(0, KEYS, ROWS)
    for name, make, columns in (
        ("ExponentialHistogram", lambda: ExponentialHistogram(10**6), {}),
        ("RandomizedWave", lambda: RandomizedWave(10**6), {"item": keys * 31 + at % 7}),
    ):

        def bank(make=make, columns=columns):
            filled = Bank(make())
            filled.update_many(keys, at=at, **columns)
            filled.to_bytes()
            return filled

        yield f"{name}: bank of {KEYS:,} keys", bank
        filled = bank()
        frames = list(filled.to_bytes().values())

        def asked(filled=filled):
            if hasattr(filled, "query"):
                filled.query(1000)
            else:
                for _, sketch in filled.items():
                    sketch.query(1000)

        yield f"{name}: all {KEYS:,} keys asked", asked

        def read(frames=frames, make=make):
            if hasattr(Bank, "from_bytes"):
                Bank.from_bytes(dict(enumerate(frames)), make()).query(1000)
            else:
                for sketch in decode_many(frames):
                    sketch.query(1000)

        yield f"{name}: {KEYS:,} frames read and asked", read

        def merged(frames=frames, make=make):
            if hasattr(Bank, "from_bytes"):
                from recency.serialization import merge_frames

                merge_frames(frames, np.arange(len(frames)) // 100, 1 + len(frames) // 100)
            else:
                for begin in range(0, len(frames), 100):
                    merge_all(decode_many(frames[begin : begin + 100])).to_bytes()

        yield f"{name}: {KEYS:,} frames merged to {KEYS // 100:,}", merged

    for some in (1, 1000, 10_000):

        def cells(some=some):
            filled = Bank(EcmSketch(10**6, 0.1))
            filled.update_many(keys % some, item=keys % 997, at=at)
            filled.to_bytes()

        yield f"EcmSketch(ε = 0.1): {some:,} keys, with bytes", cells


def measure(wanted):
    for name, work in cases():
        if wanted in name:
            work()
            begin = perf_counter()
            work()
            print(json.dumps([name, perf_counter() - begin]), flush=True)


def run(source, wanted):
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--measure", wanted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def main(other=None, wanted=""):
    if other == "--measure":
        return measure(wanted)
    rounds = []
    for _ in range(ROUNDS):
        rounds.append((run(other, wanted) if other else {}, run(HERE, wanted)))
        print(f"round {len(rounds)} of {ROUNDS}", file=sys.stderr)
    lines = ["case\there, ms\tother, ms\tratio"]
    for name in rounds[0][1]:
        here = median(new[name] for _, new in rounds[1:])
        then = median(old[name] for old, _ in rounds[1:]) if other else float("nan")
        lines.append(f"{name}\t{here * 1e3:.3g}\t{then * 1e3:.3g}\t{here / then:.3g}")
    print("\n".join(lines))
    if not wanted:
        (Path(__file__).parent / "results" / "engine.tsv").write_text("\n".join(lines) + "\n")
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
