"""Speed of the keyed rank log, and of writing and reading many small logs."""

import numpy as np

from harness import Report, seconds
from recency import ExponentialHistogram, decode_many, encode_many
from recency.core import codec
from recency.core.arrays import cutoffs
from recency.core.codec import RecordReader, RecordWriter
from recency.core.rank_log import EXPONENTIAL, WAVE, RankLog
from recency.counters.records import CounterStates, read_states, write_states

KEYS, EVENTS, WINDOW = 100_000, 1_000_000, 10**6


def main():
    report = Report("rank_log")
    rng = np.random.default_rng(0)
    times, values = np.arange(EVENTS), np.ones(EVENTS, dtype=np.int64)
    cutoff = cutoffs(np.full(KEYS, EVENTS - 1), WINDOW)
    uniform = rng.integers(0, KEYS, EVENTS)
    skewed = rng.zipf(1.2, EVENTS) % KEYS
    for rule, name in ((EXPONENTIAL, "exponential"), (WAVE, "wave")):
        empty = RankLog.empty(rule, np.full(KEYS, rule.tightness(0.05)))
        for keys, spread in ((uniform, "uniform"), (skewed, "Zipf 1.2")):
            rate = EVENTS / seconds(lambda: empty.append(keys, times, values, cutoff)) / 1e6
            what = f"{name} log: 1 M events over 100 000 keys, {spread}"
            report.add(what, rate, "M/s", at_least=2)

    log = RankLog.empty(EXPONENTIAL, np.full(KEYS, 20)).append(uniform, times, values, cutoff)
    states = CounterStates(
        log,
        np.ones(KEYS, dtype=np.bool_),
        np.full(KEYS, EVENTS - 1),
        np.zeros(KEYS, dtype=np.int64),
        np.ones(KEYS),
    )

    def encode():
        writer = RecordWriter(KEYS)
        write_states(states, 20, writer)
        return codec.encode_many(1, b"", writer)

    frames = encode()

    def decode() -> RecordReader:
        header = codec.read_header(frames[0])
        reader = codec.read_payloads(codec.check_whole(frames, header), "log")
        return read_states(EXPONENTIAL, 20, WINDOW, reader)

    report.add("bytes of 100 000 logs of 10 events, each", len(b"".join(frames)) / KEYS, "B")
    report.add("encode 100 000 small logs", seconds(encode, 3), "s", at_most=2)
    report.add("decode 100 000 small logs", seconds(decode, 3), "s", at_most=2)

    sketches = decode_many([ExponentialHistogram(window=WINDOW).to_bytes()] * KEYS)
    for key, sketch in enumerate(sketches):
        sketch.update(at=key)
        sketch.update(at=key + 5)
    objects = encode_many(sketches)
    encoding = seconds(lambda: encode_many(sketches), 3)
    decoding = seconds(lambda: decode_many(objects), 3)
    report.add("encode_many of 100 000 sketch objects", encoding, "s", at_most=2)
    report.add("decode_many of 100 000 sketch objects", decoding, "s", at_most=2)
    report.write()


if __name__ == "__main__":
    main()
