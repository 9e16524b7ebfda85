"""Age cells: exact sums over blocks of time that grow with age, of many keys at once.

The **cell** of a time t at a clock L is the largest block [k·2ʲ, (k + 1)·2ʲ) that contains t and
whose last tick is at least 16·2ʲ ticks before L; if there is none, the tick itself. So a cell is
at most a sixteenth as long as it is old, and an octave of ages has 16 cells. It is a function of t
and L alone, and as L grows cells only become parts of larger ones: what is kept is a function of
the set of rows and the clock, whatever the order of arrival, the batches, or the merge tree.

**Expiry.** A cell goes when its last tick is not later than the cutoff L − W. No row that went may
belong to a cell that stays later on, so cells have at most W/17 ticks: a block of 2ʲ ticks that
begins up to L − W, and is not old enough to be a cell, ends before L − W + 2ʲ and after
L − 16·2ʲ, and these are disjoint if 17·2ʲ ≤ W.

**Sums** are exact: integers in units of 2⁻¹⁰⁸⁸, which all float64 numbers are, with digits to the
base 2³². Digits that are 0 are not kept.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recency.core import by_key
from recency.core.arrays import (
    INT64_MIN,
    BoolArray,
    FloatArray,
    Int64Array,
    highest_bit,
    memory_of,
    offsets,
    ranges,
    run_lengths,
    run_starts,
    stable_order,
    ticks_between,
)

_AGE_BITS = 4
RESOLUTION = 1 << _AGE_BITS
"""How many times as long as it is a cell is old, at least."""
MOST_LEVEL = 59  # the oldest block of 2⁶⁰ ticks is not 16 times as old
PLACES = 66
"""How many digits a sum may have."""
_DIGIT = 32
_LOW = (1 << _DIGIT) - 1
_LEAST_EXPONENT = -1074
_UNIT = -34 * _DIGIT  # the exponent of the unit
_HUGE, _DOWN = PLACES - 4, 128  # places from which sums of floats may overflow: less 128 bits
_NUMBER_BITS = _AGE_BITS + 2
NUMBERS = 64 << _NUMBER_BITS
"""No number of a cell is as large."""
LEAST_WHOLE = -_UNIT // _DIGIT
"""The place of the lowest digit of integers."""
MOST_DIGIT = _LOW
_BINS_BITS = 12
_BLOCK = 1 << 15  # rows whose sums are taken at once
_MOST_ROWS = 1 << 24  # rows whose sums fit 64 bits
_CHUNK = 37  # bits of each value that are summed at once: 2¹⁵ times that fits a float


def most_level(window: int | None) -> int:
    """The level of the largest cells."""
    if window is None:
        return MOST_LEVEL
    return min(max((window // (RESOLUTION + 1)).bit_length() - 1, 0), MOST_LEVEL)


def levels_at(times: Int64Array, clocks: Int64Array, most: int) -> Int64Array:
    """j of the cell of each time at a clock; no time is after its clock."""
    ages = ticks_between(times, clocks)
    levels = np.maximum(highest_bit(ages) - _AGE_BITS, 0)
    # It is this one or the one below, as the last tick of the block is up to 2ʲ − 1 ticks later.
    to_go = (_masks(levels) & ~times).view(np.uint64)
    is_young = ages - to_go < np.uint64(RESOLUTION) << levels.view(np.uint64)
    levels -= is_young & (levels > 0)
    return np.minimum(levels, most)


def firsts_at(times: Int64Array, clocks: Int64Array, most: int) -> Int64Array:
    """The first tick of the cell of each time at a clock."""
    firsts: Int64Array = times & ~_masks(levels_at(times, clocks, most))
    return firsts


def _masks(levels: Int64Array) -> Int64Array:
    masks: Int64Array = (np.int64(1) << levels) - 1
    return masks


def codes_at(times: Int64Array, keys: Int64Array, clocks: Int64Array, most: int) -> Int64Array:
    """Numbers of the cells of times: by key, then the youngest first."""
    now = by_key.of_rows(clocks, keys)
    return _codes(times, keys, now, levels_at(times, now, most))


def _codes(
    times: Int64Array, keys: Int64Array, clocks: Int64Array, levels: Int64Array
) -> Int64Array:
    # Fewer than 64 blocks ago: from 2 · 17 on blocks are cells of the next level, or expire.
    back = (clocks >> levels) - (times >> levels)
    codes: Int64Array = keys * NUMBERS + (levels << _NUMBER_BITS) + back
    return codes


class Now(NamedTuple):
    """Clocks of keys, what has expired at them, and the level of the largest cells."""

    clocks: Int64Array
    cutoffs: Int64Array
    most_level: int


@dataclass(frozen=True, eq=False)
class AgeCells:
    """The digits of the sums of all cells, by key, then first tick, then place."""

    keys: Int64Array
    firsts: Int64Array
    """The first tick of the cell."""
    places: Int64Array
    digits: Int64Array

    @staticmethod
    def joined(cells: Sequence["AgeCells"], sizes: Sequence[int]) -> "AgeCells":
        """Return the cells of several in a row; ``sizes`` are their numbers of keys."""
        filled = [i for i, each in enumerate(cells) if each.keys.size]
        if filled in ([], [0]):
            return cells[0]
        first_keys = offsets(np.array(sizes))
        keys = [cells[i].keys + first_keys[i] for i in filled]
        rest = zip(*(cells[i]._columns()[1:] for i in filled), strict=True)
        return AgeCells(np.concatenate(keys), *map(np.concatenate, rest))

    @staticmethod
    def together(cells: Sequence["AgeCells"]) -> "AgeCells":
        """The digits of several, of the same keys; to be put in order by :meth:`at`."""
        columns = zip(*(each._columns() for each in cells), strict=True)
        return AgeCells(*map(np.concatenate, columns))

    def _columns(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        return self.keys, self.firsts, self.places, self.digits

    @staticmethod
    def of_codes(
        codes: Int64Array, places: Int64Array, digits: Int64Array, clocks: Int64Array
    ) -> "AgeCells | None":
        """Return the cells of :meth:`codes`, for :meth:`at`; None if some are before all times."""
        keys, numbers = np.divmod(codes, NUMBERS)
        levels = numbers >> _NUMBER_BITS
        if (levels > MOST_LEVEL).any():
            return None
        back, now = numbers & ((1 << _NUMBER_BITS) - 1), by_key.of_rows(clocks, keys) >> levels
        if (ticks_between(np.int64(INT64_MIN) >> levels, now) < back.view(np.uint64)).any():
            return None
        return AgeCells(keys, (now - back) << levels, places, digits)

    def codes(self, clocks: Int64Array, most: int) -> Int64Array:
        """Numbers of cells at clocks: by key, then the youngest first."""
        return codes_at(self.firsts, self.keys, clocks, most)

    def renamed(self, keys: Int64Array) -> "AgeCells":
        """Return the digits under other keys; to be put in order by :meth:`at`."""
        return replace(self, keys=keys[self.keys])

    def only(self, rows: Int64Array | BoolArray | slice) -> "AgeCells":
        """Return some of the digits."""
        return AgeCells(*(column[rows] for column in self._columns()))

    def take(self, keys: Int64Array) -> "AgeCells":
        """The cells of some keys, under the numbers 0, 1, …"""
        if not self.keys.size:
            return self
        starts, ends = (np.searchsorted(self.keys, keys, side) for side in ("left", "right"))
        taken = self.only(ranges(starts, ends - starts))
        return replace(taken, keys=np.repeat(np.arange(keys.size), ends - starts))

    def split(self, size: int) -> list["AgeCells"]:
        """Return the cells of each of ``size`` keys."""
        if not self.keys.size:
            return [self] * size
        cuts = np.searchsorted(self.keys, np.arange(size + 1)).tolist()
        parts = (self.only(slice(a, b)) for a, b in pairwise(cuts))
        return [replace(part, keys=np.zeros_like(part.keys)) for part in parts]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return memory_of(*self._columns())

    def levels(self, clocks: Int64Array, most: int) -> Int64Array:
        """Return the j of each cell."""
        return levels_at(self.firsts, by_key.of_rows(clocks, self.keys), most)

    def at(self, now: Now) -> "AgeCells":
        """Return what is left when the clock of each key has moved on, or digits were put in.

        ``firsts`` may be any ticks of cells, digits any numbers of 63 bits with sums above 0.
        """
        if not self.keys.size:
            return self
        levels = self.levels(now.clocks, now.most_level)
        masks = _masks(levels)
        firsts = self.firsts & ~masks
        live = firsts | masks > by_key.of_rows(now.cutoffs, self.keys)
        moved = replace(self, firsts=firsts)
        return (moved if live.all() else moved.only(live))._carried()

    def _carried(self) -> "AgeCells":
        """Return the digits in order, one for each place, with what is too large carried on."""
        cells = self
        while True:
            keys, firsts, places, digits = cells._columns()
            order = np.lexsort((places, firsts, keys))
            cells = cells.only(order)
            starts = run_starts(*cells._columns()[:3])
            if starts.size:
                cells = replace(cells.only(starts), digits=np.add.reduceat(cells.digits, starts))
            carry = cells.digits >> _DIGIT
            digits = cells.digits & _LOW
            over = np.flatnonzero(carry)
            cells = replace(cells, digits=digits)
            if not over.size:
                return cells.only(digits > 0) if not digits.all() else cells
            above = cells.only(over)
            above = replace(above, places=above.places + 1, digits=carry[over])
            cells = AgeCells.together([cells, above])

    def sums(self, rows: NDArray[np.intp] | slice, size: int) -> FloatArray:
        """The sum of some digits of each of ``size`` keys, rounded once."""
        keys, places, digits = self.keys[rows], self.places[rows], self.digits[rows]
        down = np.zeros(size, dtype=np.int64)
        down[keys[places >= _HUGE]] = _DOWN
        exponents = places * _DIGIT + _UNIT - down[keys]
        parts = np.ldexp(digits.astype(np.float64), exponents)
        return np.ldexp(by_key.float_sums(keys, parts, size), down)

    @property
    def are_floats(self) -> bool:
        """Whether sums may be of floats: the lowest place has bits that no float has."""
        lowest = self.digits[self.places == 0]
        return not (lowest & ((1 << (_LEAST_EXPONENT - _UNIT)) - 1)).any()

    def with_rows(
        self, keys: Int64Array, times: Int64Array, amounts: FloatArray | None, now: Now
    ) -> "AgeCells":
        """Return the sums with rows put in, of amounts ≥ 0 (None: 1 each), at these clocks."""
        parts = [self]
        for begin in range(0, times.size, _MOST_ROWS):
            rows = slice(begin, begin + _MOST_ROWS)
            some = None if amounts is None else amounts[rows]
            parts += _summed(keys[rows], times[rows], some, now)
        return AgeCells.together(parts).at(now)


_none = np.empty(0, dtype=np.int64)
NO_CELLS = AgeCells(_none, _none, _none, _none)


def _summed(
    keys: Int64Array, times: Int64Array, amounts: FloatArray | None, now: Now
) -> list[AgeCells]:
    """Digits of the sums of rows, without most of what has expired."""
    # Cells reach back behind the cutoff, by less than their length.
    clocks, cutoffs, most = now
    behind = np.maximum(cutoffs, INT64_MIN + (1 << most)) - (1 << most)
    if times.size and times.min() <= behind.max():
        index = np.flatnonzero(times > by_key.of_rows(behind, keys))
        keys, times = keys[index], times[index]
        amounts = None if amounts is None else amounts[index]
    if not times.size:
        return []
    if clocks.size == 1:
        return _summed_in_bins(times, amounts, int(clocks[0]), most)
    return _summed_in_order(keys, times, amounts, now)


def _summed_in_bins(
    times: Int64Array, amounts: FloatArray | None, clock: int, most: int
) -> list[AgeCells]:
    """Sum one key by some thousand blocks of equal length, and again where that is too long."""
    parts = []
    while True:
        oldest = int(times.min())
        shift = min(max((clock - oldest).bit_length() - _BINS_BITS, 0), most)
        base = oldest >> shift
        blocks = np.arange((clock >> shift) - base + 1) + base
        firsts = blocks << shift
        # The younger, the smaller: from the first block that is more than a cell all are.
        levels = levels_at(np.maximum(firsts, oldest), np.array([clock]), most)
        size = int(np.searchsorted(-levels, -shift, side="right"))
        sums_of_bins = _sums_of_bins(times, amounts, shift, base, blocks.size)
        for exponent, sums in _positive(sums_of_bins):
            told = np.flatnonzero(sums[:size])
            parts.append(_digits(np.zeros_like(told), firsts[told], sums[told], exponent))
        recent = np.flatnonzero(times >= firsts[size]) if size < blocks.size else _none
        if not recent.size:
            return parts
        times = times[recent]
        amounts = None if amounts is None else amounts[recent]


def _sums_of_bins(
    times: Int64Array, amounts: FloatArray | None, shift: int, base: int, size: int
) -> dict[int, Int64Array]:
    """For some e the sums by block of what amounts have of multiples of 2ᵉ, over 2ᵉ."""
    sums: dict[int, Int64Array] = {}
    top = 0 if amounts is None else int(np.frexp(amounts.max())[1])
    for begin in range(0, times.size, _BLOCK):
        bins = (times[begin : begin + _BLOCK] >> shift) - base
        rows, starts = bins.size, run_starts(bins)
        if 4 * starts.size < rows:  # adding to one bin again and again would take longer
            bins = bins[starts]
        if amounts is None:
            counts = np.bincount(bins, run_lengths(starts, rows) if bins.size < rows else None)
            held = sums.setdefault(0, np.zeros(size, dtype=np.int64))
            held[: counts.size] += counts.astype(np.int64)
            continue
        for exponent, chunk in _chunks(amounts[begin : begin + _BLOCK], top):
            told = np.add.reduceat(chunk, starts) if bins.size < rows else chunk
            added = _whole(np.bincount(bins, told).astype(np.float64), exponent)
            held = sums.setdefault(exponent, np.zeros(size, dtype=np.int64))
            held[: added.size] += added
    return sums


def _chunks(amounts: FloatArray, top: int) -> Iterator[tuple[int, FloatArray]]:
    """Amounts below 2ᵗᵒᵖ as sums of multiples of 2ᵉ, of which 2¹⁵ have an exact sum."""
    rest = amounts
    while True:
        exponent = max(top - _CHUNK, _LEAST_EXPONENT)
        unit = math.ldexp(1.5, exponent + 52)  # of sums with it this is the last bit
        chunk = (rest + unit) - unit  # rounded to a multiple, perhaps upwards
        yield exponent, chunk
        rest = rest - chunk
        if not rest.any():
            return
        top -= _CHUNK


def _summed_in_order(
    keys: Int64Array, times: Int64Array, amounts: FloatArray | None, now: Now
) -> list[AgeCells]:
    """Sum many keys: rows come together by sorting numbers of their cells."""
    firsts, cells = np.empty((2, times.size), dtype=np.int64)
    for begin in range(0, times.size, _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        ticks, clocks = times[rows], now.clocks[keys[rows]]
        levels = levels_at(ticks, clocks, now.most_level)
        firsts[rows] = ticks & ~_masks(levels)
        cells[rows] = _codes(ticks, keys[rows], clocks, levels)
    order = stable_order(cells)
    starts = run_starts(cells[order])
    of_cells = order[starts]
    keys, firsts = keys[of_cells], firsts[of_cells]
    if amounts is None:
        return [_digits(keys, firsts, run_lengths(starts, order.size), 0)]
    ordered = amounts[order]
    sums = {
        exponent: np.add.reduceat(_whole(chunk, exponent), starts)
        for exponent, chunk in _chunks(ordered, int(np.frexp(ordered.max())[1]))
    }
    return [_digits(keys, firsts, each, exponent) for exponent, each in _positive(sums)]


def _whole(multiples: FloatArray, exponent: int) -> Int64Array:
    """Return multiples of 2ᵉ divided by 2ᵉ, as integers."""
    if exponent < -1000:  # where 2⁻ᵉ is no float
        return np.ldexp(multiples, -exponent).astype(np.int64)
    return (multiples * math.ldexp(1.0, -exponent)).astype(np.int64)


def _positive(sums: dict[int, Int64Array]) -> Iterator[tuple[int, Int64Array]]:
    """Sums of integers times 2ᵉ, that add up to some ≥ 0, without those below 0."""
    exponents = sorted(sums)
    for exponent, above in pairwise(exponents):
        sums[above] = sums[above] + (sums[exponent] >> (above - exponent))
        yield exponent, sums[exponent] & ((1 << (above - exponent)) - 1)
    yield exponents[-1], sums[exponents[-1]]


def _digits(keys: Int64Array, firsts: Int64Array, sums: Int64Array, exponent: int) -> AgeCells:
    """Return integers ≥ 0 times 2ᵉ as digits."""
    place, shift = divmod(exponent - _UNIT, _DIGIT)
    low = (sums & _LOW) << shift
    high = ((sums >> _DIGIT) << shift) + (low >> _DIGIT)
    digits = np.concatenate([low & _LOW, high & _LOW, high >> _DIGIT])
    places = np.repeat(np.arange(place, place + 3), sums.size)
    parts = AgeCells(np.tile(keys, 3), np.tile(firsts, 3), places, digits)
    return parts.only(np.flatnonzero(digits))
