"""Sketches that keep sums by age: which do, what they say, and forged states of them."""

import math
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recency import Bank, CorruptSketchError, Estimate, QuantileWave, SumWave, loads, merge_all
from states import body_of, tally_of
from states import change as put_into

CLASSES = [SumWave, QuantileWave]


def filled(cls, size=3000, step=1, start=0, window=2000, **settings):
    sketch = cls(window, capacity=40, **settings)
    rows = np.arange(start, size, step)
    sketch.update_many(rows % 7 / 4, at=rows * 7919 % size, id=rows)
    return sketch


def is_counted(sketch):
    return bool(tally_of(sketch).is_counted[0])


@pytest.mark.parametrize("cls", CLASSES)
def test_only_keys_all_of_whose_events_had_ids_have_sums(cls):
    with_ids, without, empty = filled(cls), cls(2000, capacity=40), cls(2000, capacity=40)
    without.update(1, at=0)
    assert is_counted(with_ids)
    assert body_of(with_ids).cells.keys.size
    assert not is_counted(without)
    assert not is_counted(empty)
    assert is_counted(merge_all([empty, with_ids, empty]))
    for mixed in (merge_all([with_ids, without]), merge_all([without, with_ids])):
        assert not is_counted(mixed)
        assert not body_of(mixed).cells.keys.size
        assert loads(mixed.to_bytes()) == mixed
    late = with_ids.copy()
    late.update(1, at=0)
    late.update(1, at=0, id=5)
    assert not is_counted(late)
    assert not body_of(late).cells.keys.size
    single, many = cls(), cls()
    for i in range(10):
        single.update(i, at=i, id=i)
    many.update_many(range(10), at=range(10), id=range(10))
    assert single == many


@pytest.mark.parametrize("cls", CLASSES)
def test_the_state_is_a_function_of_the_events(cls):
    whole = filled(cls)
    parts = [filled(cls, step=3, start=i) for i in range(3)]
    assert merge_all(parts) == merge_all([parts[2], merge_all(parts[:2])]) == whole
    bank = Bank(cls(2000, capacity=40))
    rows = np.arange(3000)
    for part in np.array_split(rows[::-1], 4):
        bank.update_many(part % 5, part % 7 / 4, at=part * 7919 % 3000, id=part)
    of_keys = [bank[key] for key in bank]
    assert merge_all(of_keys) == whole
    assert Bank.from_bytes(bank.to_bytes()).to_bytes() == bank.to_bytes()
    for key in range(5):
        alone = cls(2000, capacity=40, stream=list(bank).index(key))
        mine = rows[rows % 5 == key]
        alone.update_many(mine % 7 / 4, at=mine * 7919 % 3000, id=mine)
        assert bank[key] == alone
        asked = {"window": 1234, "now": 3000}
        alike = Estimate(*(np.array([x]) for x in vars(ask(alone)(**asked)).values()))
        of_bank = ask(bank)(**asked, keys=[key])
        assert (alike.lower, alike.value, alike.upper) == (
            of_bank.lower,
            of_bank.value,
            of_bank.upper,
        )


def ask(sketch):
    prototype = getattr(sketch, "prototype", sketch)
    return sketch.count if isinstance(prototype, QuantileWave) else sketch.query


@pytest.mark.parametrize("cls", CLASSES)
def test_windows_that_no_cell_is_cut_by_are_certain(cls):
    sketch = cls(capacity=10)
    rows = np.arange(4096)
    sketch.update_many(1, at=rows, id=rows)
    recent = ask(sketch)(16)
    assert recent.exact
    assert recent.value == 16
    assert not ask(sketch)(3000).exact
    everything = ask(sketch)()
    assert everything.exact
    assert everything.value == 4096
    assert ask(sketch)(10, now=5000) == Estimate(0.0, 0.0, 0.0, 1.0)


def forged(sketch, **change):
    """The bytes of a sketch whose cells were tampered with."""
    body = body_of(sketch)
    put_into(sketch, body=replace(body, cells=replace(body.cells, **change)))
    return sketch.to_bytes()


@pytest.mark.parametrize("cls", CLASSES)
def test_forged_sums_are_corrupt(cls):
    def cells():
        return body_of(filled(cls)).cells

    def changed(name, change):
        column = getattr(cells(), name).copy()
        change(column)
        return {name: column}

    def set_to(index, value):
        return lambda column: column.__setitem__(index, value)

    body = body_of(filled(cls))
    oldest = body.sample.times.min()
    sampled = int(np.flatnonzero(body.cells.firsts <= oldest)[-1])  # it is the highest digit
    fewer = {name: np.delete(column, sampled) for name, column in vars(cells()).items()}
    for change, reason in [
        (changed("digits", set_to(sampled, 0)), "sums out of order, or of nothing"),
        (changed("digits", set_to(sampled, 2**32)), "a number is above"),
        (changed("digits", set_to(sampled, 1)), "a sum of less than is sampled"),
        (changed("places", set_to(sampled, 0)), "of what no event has|of less than is sampled"),
        (changed("places", set_to(sampled, 65)), "sums of more events than were seen"),
        (fewer, "an event that no sum has|of less than is sampled"),
    ]:
        with pytest.raises(CorruptSketchError, match=reason):
            loads(forged(filled(cls), **change))
    sketch = filled(cls)
    put_into(sketch, by_id=False)
    with pytest.raises(CorruptSketchError, match="and there were none"):
        loads(sketch.to_bytes())


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("flags", [2, 4, 5, 6, 8, 15])
def test_flags_that_no_stream_leads_to_are_corrupt(cls, flags):
    sketch = cls(capacity=40)
    if flags % 2:
        sketch.update(1, at=1)
    frame = sketch.to_bytes()
    place = 6 + frame[5]
    assert frame[place] == flags % 2
    body = frame[:place] + bytes([flags]) + frame[place + 1 : -4]
    with pytest.raises(CorruptSketchError):
        loads(body + zlib.crc32(body).to_bytes(4, "little"))


@pytest.mark.parametrize("name", ["sum-event-ids", "quantile-event-ids"])
def test_bytes_from_before_there_were_sums_have_none_from_then_on(name):
    path = Path(__file__).parents[1] / "golden" / "v1" / f"{name}.bin"
    sketch = loads(path.read_bytes())
    assert tally_of(sketch).by_id[0]
    sketch.update(1, at=2000, id="new")
    assert not is_counted(sketch)
    assert loads(sketch.to_bytes()) == sketch
    assert not is_counted(merge_all([sketch, sketch.empty_like()]))
    answer = ask(sketch)(1000)
    assert answer.lower <= answer.value <= answer.upper


def test_every_change_of_a_number_is_refused_or_another_state():
    """With a correct checksum: no other exception, and what is read is written again."""
    for cls in CLASSES:
        sketch = filled(cls, size=200, window=100)
        frame = sketch.to_bytes()
        rng = np.random.default_rng(1)
        for position in range(6 + frame[5], len(frame) - 4):
            for byte in (0, 1, 127, int(rng.integers(256))):
                check(frame[:position] + bytes([byte]) + frame[position + 1 : -4])


def check(body):
    frame = body + zlib.crc32(body).to_bytes(4, "little")
    try:
        sketch = loads(frame)
    except CorruptSketchError:
        return
    assert sketch.to_bytes() == frame
    sketch.update(1, at=sketch.latest, id=1)


@pytest.mark.parametrize("large", [1e9 + 0.1, 1e15 + 0.125, 2.0**52])
def test_what_a_large_value_before_the_window_rounds_away_is_within_the_interval(large):
    # The large value is in the cell that the window begins in: upper is one sum less another.
    amounts = [large] + [0.01] * 3001
    for seed in range(5):
        sketch = SumWave(capacity=10, seed=seed)
        sketch.update_many(amounts, at=[*range(3001), 1 << 20], id=range(3002))
        told = sketch.query(1 << 20)
        assert told.lower <= math.fsum(amounts[1:]) <= told.upper


@pytest.mark.parametrize("cls", [SumWave, QuantileWave])
def test_sketches_of_more_events_than_int64_counts_are_read(cls):
    """Merged with itself again and again, a sketch would outgrow the digits of its sums."""
    sketch = cls(capacity=2)
    sketch.update_many([2.0**960] * 10, at=range(10), id=range(10))
    for _ in range(70):
        sketch.merge(sketch.copy())
        assert loads(sketch.to_bytes()) == sketch
    assert not is_counted(sketch)
    answer = sketch.query() if cls is SumWave else sketch.count()
    assert answer.lower <= answer.value <= answer.upper


def test_levels_that_stand_for_more_than_any_stream_has_are_refused():
    """1 400 elements of value 2⁹⁶⁰ at level 1013, which none of them reaches but by 2⁵³ chances."""
    value = int.from_bytes(struct.pack("<d", 2.0**960), "big")
    times = [500, 119, *[0] * 699, 2, *[0] * 699]
    numbers = [3, 0, 3000, 200_000, 1, 2026, 50_000, 1, 2028, 1400, *times, 0, *[value] * 1400]
    empty = SumWave(capacity=2000).to_bytes()
    frame = empty[: 6 + empty[5]] + b"".join(map(varint, numbers))
    with pytest.raises(CorruptSketchError, match="more of a value than any stream has"):
        loads(frame + struct.pack("<I", zlib.crc32(frame)))


def varint(number):
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])
