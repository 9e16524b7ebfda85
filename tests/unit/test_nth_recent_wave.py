"""The n-th most recent 1 at the ends of int64, in few bytes of memory, and from hostile bytes."""

import random
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from recency import (
    CorruptSketchError,
    NoAnswerError,
    NthRecentWave,
    OutOfOrderError,
    loads,
    merge_all,
)
from recency.core.codec import decode_varints, encode_varints
from recency.sketch import decode_many, encode_many
from states import body_of, tally_of

FIRST, LAST = -(2**63) + 1, 2**63 - 1


def wave_of(times, **settings):
    wave = NthRecentWave(**{"relative_error": 0.2, **settings})
    wave.update_many(at=times)
    return wave


def doubled(wave, times):
    """Return the sketch merged with itself ``times`` times: 2 ** times as many 1s."""
    for _ in range(times):
        wave = merge_all([wave, wave])
    return wave


def edge_streams():
    rng = random.Random(1)
    spread = sorted(rng.randint(FIRST, LAST) for _ in range(300))
    return {
        "first": [FIRST],
        "last": [LAST],
        "both ends": [FIRST, LAST],
        "at the first tick": sorted(FIRST + rng.randrange(500) for _ in range(300)),
        "at the last tick": sorted(LAST - rng.randrange(500) for _ in range(300)),
        "dense ends": [*range(FIRST, FIRST + 200), *range(LAST - 200, LAST + 1)],
        "beyond 2**53": [2**53 + 1, 2**53 + 3, 2**54 + 1, 2**60 + 1, 2**60 + 7, 2**62 - 1],
        "everywhere": [FIRST, *spread, LAST],
        "across zero": list(range(-150, 151, 3)),
    }


edges = pytest.mark.parametrize("times", edge_streams().values(), ids=edge_streams())


@edges
@pytest.mark.parametrize("window", [None, 400, LAST])
def test_intervals_are_certain_whatever_the_age(times, window):
    wave = wave_of(times, window=window)
    for now in sorted({times[-1], min(times[-1] + 1, LAST), LAST}):
        for n, time in enumerate(reversed(times), start=1):
            age = now - time  # Python's integers and floats compare exactly
            try:
                answer = wave.query(n, now=now)
            except NoAnswerError:
                assert window is not None
                assert age >= window
                continue
            assert answer.lower <= age <= answer.upper, (n, now, answer)
            assert answer.lower <= answer.value <= answer.upper
            assert str(answer.upper) != "-0.0"
            if window is None or now == times[-1]:
                assert abs(answer.value - age) <= 0.2 * age * (1 + 1e-12)


def test_ages_up_to_the_whole_range_are_answered():
    wave = wave_of([FIRST])
    answer = wave.query(now=LAST)
    assert answer.lower <= LAST - FIRST <= answer.upper
    assert answer.upper == 2.0**64
    assert answer.lower < 2.0**64


@edges
def test_every_legal_time_can_be_merged_and_written(times):
    whole = wave_of(times)
    parts = [wave_of(times[i::3]) for i in range(3) if times[i::3]]
    assert merge_all(parts) == whole
    one_by_one = NthRecentWave(relative_error=0.2)
    for time in times:
        one_by_one.update(at=time)
    assert one_by_one == whole
    assert loads(whole.to_bytes()) == whole
    whole.update(0, at=LAST)
    assert loads(whole.to_bytes()) == whole
    assert whole.latest == LAST


def test_the_clock_may_stand_at_either_end():
    for tick in (FIRST, LAST):
        wave = NthRecentWave(window=10)
        wave.update(0, at=tick)
        with pytest.raises(NoAnswerError, match=r"number of 1s seen \(0\), got 1"):
            wave.query()
        wave.update_many([1, 1], at=tick)
        assert [float(wave.query(n)) for n in (1, 2)] == [0, 0]
        assert loads(wave.to_bytes()) == wave


def test_the_number_of_1s_stays_within_int64():
    one = wave_of([5])
    many = merge_all(doubled(one, times) for times in range(63))  # 2⁶³ − 1 of them
    before = many.to_bytes()
    assert loads(before) == many
    assert many.query(2**63 - 1).exact
    refused = r"the number of 1s must stay within int64, got 9223372036854775807 \+ "
    with pytest.raises(ValueError, match=refused + "1$"):
        many.update(at=6)
    with pytest.raises(ValueError, match=refused + "2$"):
        many.update_many(at=[6, 7])
    with pytest.raises(ValueError, match=refused + "1$"):
        many.merge(one)
    with pytest.raises(ValueError, match=refused):
        merge_all([many, one, many])
    assert many.to_bytes() == before
    assert many.latest == 5
    many.update_many(0, at=[6, 7])
    assert float(many.query(2**63 - 1)) == 2


def test_buffered_1s_count():
    many = merge_all(doubled(wave_of([5]), times) for times in range(1, 63))  # 2⁶³ − 2
    many.update(at=6)
    with pytest.raises(ValueError, match=r"within int64, got 9223372036854775807 \+ 1"):
        many.update(at=6)
    assert float(many.query(1)) == 0
    assert float(many.query(2)) == 1


def test_gaps_and_values_beyond_2_to_the_62_are_read_again():
    value = doubled(wave_of([7]), 62)
    assert loads(value.to_bytes()) == value
    gap = merge_all(
        [wave_of([1, 1000]), doubled(wave_of([1001]), 62), doubled(wave_of([1001]), 61)]
    )
    gap.update(at=10**7)  # ticks that follow each other closely are forgotten by now
    back = loads(gap.to_bytes())
    assert back == gap
    assert body_of(gap).gaps().max() > 2**62
    answer = back.query(2**62)
    assert answer.lower <= 10**7 - 1001 <= answer.upper


def test_memory_is_freed_after_one_large_call():
    times = np.arange(2_000_000)
    shuffled = np.random.default_rng(1).permutation(times)
    for at in (times, shuffled):
        tracemalloc.start()
        wave = NthRecentWave()
        wave.update_many(at=at)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 100_000
        assert peak < 50_000_000
        assert wave == wave_of(times, relative_error=0.05)


def test_many_waves_are_merged_like_one_pass():
    rng = np.random.default_rng(2)
    streams = [np.sort(rng.integers(0, 10**6, 40)) for _ in range(300)]
    merged = merge_all([wave_of(times, window=5000) for times in streams])
    assert merged == wave_of(np.concatenate(streams), window=5000)


# --- hostile bytes ----------------------------------------------------------------------------


def written(wave):
    """The header of a frame, and the numbers of its payload."""
    frame = wave.to_bytes()
    begin = 6 + frame[5]
    numbers, _ = decode_varints(np.frombuffer(frame[begin:-4], dtype=np.uint8), "frame")
    return frame[:begin], numbers.tolist()


def framed(header, numbers):
    body = header + encode_varints(np.array(numbers, dtype=np.uint64))[0].tobytes()
    return body + struct.pack("<I", zlib.crc32(body))


INT64_MIN_ZIGZAG = 2**64 - 1


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([1, INT64_MIN_ZIGZAG, 0, 0], "the latest time is out of range"),
        ([1, INT64_MIN_ZIGZAG, 1, 1, 0, 0, 0], "the latest time is out of range"),
        ([1, 0, 1, 1, 2**63, 0, 0], "times out of range"),
        ([1, 0, 2, 2, 2**63, 2**63, 0, 0, 0, 0], "numbers out of range"),
        ([1, 0, 2**63, 0], "a number is above"),
        ([1, 0, 2**63 - 1, 1, 0, 2**63 - 1, 0], "the total does not fit int64"),
        ([1, 0, 2**63 - 1, 1, 0, 2**63 - 1, 2**63 - 1], "the total does not fit int64"),
        ([1, 0, 9, 3, 1, 1, 0, *[2**63 - 1] * 6], "numbers out of range"),
        ([1, 0, 1, 1, 0, 1, 0], "more 1s than the total"),
        ([1, 0, 2, 2, 0, 0, 0, 0, 0, 0], "times out of order"),
        ([1, 0, 2, 1, 0, 0, 0], "1s at a time that cannot be"),
        ([1, 0, 1, 2**63 - 1, 0, 0, 0], "shorter than its counts say"),
        ([0, 0, 1, 0, 0, 0], "an empty sketch with a state"),
        ([0, 1, 0], "an empty sketch with a state"),
    ],
)
def test_numbers_that_no_stream_leads_to_are_corrupt(numbers, reason):
    header, _ = written(NthRecentWave())
    with pytest.raises(CorruptSketchError, match=reason):
        loads(framed(header, numbers))
    good = wave_of([1, 5], relative_error=0.05).to_bytes()
    with pytest.raises(CorruptSketchError, match=reason):
        decode_many([good, framed(header, numbers), good])


def test_waves_that_were_read_work_like_others():
    rng = random.Random(3)
    waves = [wave_of(times, window=w) for times in edge_streams().values() for w in (None, 400)]
    waves += [NthRecentWave(), doubled(wave_of([7, 9]), 61), doubled(wave_of([LAST]), 62)]
    waves += [merge_all([doubled(wave_of(range(1, 3000, 7)), 50), wave_of([2900, 3000])])]
    contents = [written(wave) for wave in waves]
    frames = encode_many(waves)
    read, changed = 0, []
    for trial in range(20_000):
        which = rng.randrange(len(waves))
        if trial % 2:
            header, numbers = contents[which][0], contents[which][1].copy()
            for _ in range(rng.randint(1, 2)):
                change_a_number(numbers, rng)
            frame = framed(header, numbers)
        else:
            body = bytearray(frames[which][:-4])
            for _ in range(rng.randint(1, 2)):
                body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            frame = bytes(body) + struct.pack("<I", zlib.crc32(body))
        try:
            wave = loads(frame)
        except CorruptSketchError:
            continue
        if isinstance(wave, NthRecentWave):
            read += 1
            assert wave.to_bytes() == frame
            answers_or_says_why_not(wave)
            changed += changes(wave)
    assert read > 1000
    frames = encode_many(changed)
    assert encode_many(decode_many(frames)) == frames


def change_a_number(numbers, rng):
    """Return the numbers with one replaced, by a limit of some range or a close number."""
    i = rng.randrange(len(numbers))
    edge = rng.choice([0, 1, 2**53, 2**61, 2**62, 2**63, 2**64]) + rng.randint(-2, 2)
    near = numbers[i] + rng.randint(-2, 2)
    numbers[i] = rng.choice([edge, near, near, rng.choice(numbers)]) % 2**64


def answers_or_says_why_not(wave):
    for n in {
        1,
        max(int(tally_of(wave).totals[0]), 1),
        min(int(tally_of(wave).totals[0]) + 1, LAST),
    }:
        for now in (None, LAST):
            try:
                answer = wave.query(n, now=now)
            except NoAnswerError:
                continue
            assert 0 <= answer.lower <= answer.value <= answer.upper <= 2.0**64


def changes(wave):
    """Return the wave after a merge and after updates, unless these are refused."""
    for change in (
        lambda sketch: sketch.merge(sketch.copy()),
        lambda sketch: sketch.update(at=0),
        lambda sketch: sketch.update_many(at=[sketch.latest or 5, LAST]),
    ):
        changed = wave.copy()
        try:
            change(changed)
        except OutOfOrderError:
            assert changed == wave
        except ValueError as error:
            assert "must stay within int64" in str(error)  # noqa: PT017
            assert changed == wave
        else:
            yield changed
