"""Level sample: what randomized waves, sums, quantiles and decayed samples keep, many at once.

Every element has a level, drawn with its coin: an element of weight w has level ≥ i with
probability min(1, w/2ⁱ). It is stored **once, at its own level** (Xu, Tirthapura & Busch 2008,
§2.2). Each level keeps its most recent elements, at most ``capacity`` of them (α), and an *edge*:
every element of the level that is later than the edge is present. When a level overflows, its edge
rises to the smallest time that leaves at most α elements later than it, and all others go, ties
together.

So the state is a pure function of the set of elements: the edge of a level is the time of its
(α + 1)-th most recent element, whatever the order of arrival, the batches, or the merge tree.
Elements that are not later than an edge can never be needed again, for edges only rise.

**Question** for the elements later than s: let ℓ be the lowest level such that no level from ℓ on
has an edge later than s. If no level has, all elements are present. Otherwise the elements of the
levels from ℓ on are a sample in which an element of weight w is present with probability
min(1, w/2ˡ) and stands for max(w, 2ˡ) (Theorem 1 there; Gibbons & Tirthapura 2004, Lemma 3).

**Items** (``distinct=True``) are elements with an identity: only the most recent time of each
counts (Gibbons & Tirthapura 2004, §5). Their level depends on the identity alone.

**Expiry.** Nothing up to the cutoff of a key can be asked for, so edges up to it say nothing and
are forgotten, like the elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import (
    INT64_MIN,
    BoolArray,
    Int64Array,
    UInt64Array,
    highest_bit,
    memory_of,
    offsets,
    ranges,
    run_starts,
    stable_order,
)

# A group is one level of one key. Levels of float weights lie within ±1100.
_LEVEL_BITS = 12
_LEVEL_ZERO = 1 << (_LEVEL_BITS - 1)
_DENSE = 1 << 14  # groups up to which a table is laid out in full
_TABLE = 1 << 22  # entries up to which it is, without the levels that there are not
_BLOCK = 1 << 17  # rows sorted at once: they stay in the cache
_LEAST_ROW_BITS = 6  # of such a block, below which it is not worth while
_ODD_1, _ODD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
NO_LEVEL = -_LEVEL_ZERO  # below every level: nothing was forgotten, the sample is everything

Columns = tuple[NDArray[Any], ...]


def group_of(keys: Int64Array | int, levels: Int64Array) -> Int64Array:
    """The group of each element."""
    return (np.asarray(keys) << _LEVEL_BITS) + (levels + _LEVEL_ZERO)


def levels_of_items(hashes: UInt64Array) -> Int64Array:
    """Trailing zero bits: P[level ≥ i] = 2⁻ⁱ. (A hash of 0 counts as one of 2⁶³.)"""
    hashes = hashes | np.uint64(1 << 63)
    return highest_bit(hashes & (~hashes + np.uint64(1)))


EXPONENT_ZERO = 1100  # added to exponents, so that they are above 0; 0 stands for none


def exponents(weights: NDArray[np.float64]) -> Int64Array:
    """⌊log₂ w⌋ of weights above 0, as it is stored."""
    return np.frexp(weights)[1].astype(np.int64) - 1 + EXPONENT_ZERO


def levels_of_weights(weights: NDArray[np.float64], coins: UInt64Array) -> Int64Array:
    """⌊log₂(w/U)⌋ for U = (coin + 1)/2⁵³ uniform in (0, 1], exactly: no logarithm is taken."""
    uniform = ((coins >> np.uint64(11)) + np.uint64(1)).astype(np.float64)
    weight_part, weight_exponent = np.frexp(weights)
    uniform_part, uniform_exponent = np.frexp(uniform)
    below = weight_part < uniform_part
    return weight_exponent.astype(np.int64) - uniform_exponent + 53 - below


@dataclass(frozen=True, eq=False)
class LevelSample:
    """Samples of many independent streams, by key 0, 1, ….

    A value, like :class:`~recency.core.rank_log.RankLog`. Elements lie in no particular order;
    :meth:`in_order` gives the one that bytes are written in.
    """

    capacity: int
    distinct: bool
    groups: Int64Array
    times: Int64Array
    columns: Columns  # what else is known of each element; for items the identity comes first
    edge_groups: Int64Array  # groups with an edge above the cutoff, ascending
    edges: Int64Array

    @staticmethod
    def empty(capacity: int, distinct: bool, columns: Sequence[Any]) -> "LevelSample":
        """No elements; ``columns`` are the types of the further columns."""
        none = np.empty(0, dtype=np.int64)
        further = tuple(np.empty(0, dtype=kind) for kind in columns)
        return LevelSample(capacity, distinct, none, none, further, none, none)

    @staticmethod
    def side_by_side(
        samples: Sequence["LevelSample"], firsts: Sequence[int] | Int64Array | None = None
    ) -> "LevelSample":
        """One sample of the keys of all; ``firsts`` says which number the first key of each has."""
        first = samples[0]
        numbers = np.arange(len(samples)) if firsts is None else np.asarray(firsts)

        def moved(groups: Sequence[Int64Array]) -> Int64Array:
            first_keys = np.repeat(numbers, [each.size for each in groups])
            return np.concatenate(groups) + (first_keys << _LEVEL_BITS)

        columns = zip(*(sample.columns for sample in samples), strict=True)
        return LevelSample(
            first.capacity,
            first.distinct,
            moved([sample.groups for sample in samples]),
            np.concatenate([sample.times for sample in samples]),
            tuple(map(np.concatenate, columns)),
            moved([sample.edge_groups for sample in samples]),
            np.concatenate([sample.edges for sample in samples]),
        )

    def renamed(self, keys: Int64Array) -> "LevelSample":
        """The same elements and edges under the key that ``keys`` has for each of the present ones.

        Keys that become one are to be united (:meth:`united`) before anything else is done.
        """

        def moved(groups: Int64Array) -> Int64Array:
            old = groups >> _LEVEL_BITS
            new: Int64Array = groups + ((keys[old] - old) << _LEVEL_BITS)
            return new

        return replace(self, groups=moved(self.groups), edge_groups=moved(self.edge_groups))

    def split(self, firsts: Int64Array) -> list["LevelSample"]:
        """Samples of the keys from each of ``firsts`` to the next; elements in order of keys."""
        bounds = np.searchsorted(self.keys, firsts).tolist()
        edge_bounds = np.searchsorted(self.edge_keys, firsts).tolist()
        moved = (firsts << _LEVEL_BITS).tolist()
        return [
            replace(
                self,
                groups=self.groups[a:b] - shift,
                times=self.times[a:b],
                columns=tuple(column[a:b] for column in self.columns),
                edge_groups=self.edge_groups[c:d] - shift,
                edges=self.edges[c:d],
            )
            for (a, b), (c, d), shift in zip(
                pairwise(bounds), pairwise(edge_bounds), moved[:-1], strict=True
            )
        ]

    def take(self, keys: Int64Array) -> "LevelSample":
        """The samples of some keys, under the numbers 0, 1, …; elements in order of keys."""
        rows, counts = _rows_of(keys, self.keys)
        edge_rows, edge_counts = _rows_of(keys, self.edge_keys)
        level_bits = 2**_LEVEL_BITS - 1
        numbers = np.arange(keys.size) << _LEVEL_BITS
        mine = self.only(rows)
        return replace(
            mine,
            groups=(mine.groups & level_bits) + np.repeat(numbers, counts),
            edge_groups=(self.edge_groups[edge_rows] & level_bits)
            + np.repeat(numbers, edge_counts),
            edges=self.edges[edge_rows],
        )

    def only(self, rows: NDArray[np.intp]) -> "LevelSample":
        """The same sample with some of the elements."""
        groups, times, columns = take(rows, self.groups, self.times, self.columns)
        return replace(self, groups=groups, times=times, columns=columns)

    @property
    def edge_keys(self) -> Int64Array:
        """The key of each edge."""
        return self.edge_groups >> _LEVEL_BITS

    @property
    def edge_levels(self) -> Int64Array:
        """The level of each edge."""
        return _level_of(self.edge_groups)

    @property
    def keys(self) -> Int64Array:
        """The key of each element."""
        return self.groups >> _LEVEL_BITS

    @property
    def levels(self) -> Int64Array:
        """The level of each element."""
        return _level_of(self.groups)

    @property
    def nbytes(self) -> int:
        """Memory held by elements, their items included."""
        return memory_of(self.groups, self.times, *self.columns, self.edge_groups, self.edges)

    def may_be_kept(self, groups: Int64Array, times: Int64Array) -> BoolArray:
        """Whether elements are later than the edge of their group."""
        return times > Edges(self).of(groups)

    def absorb(
        self, groups: Int64Array, times: Int64Array, columns: Columns, cutoff: Int64Array
    ) -> "LevelSample":
        """Take in elements; those up to ``cutoff`` (per key) expire."""
        groups, times, columns = _only(
            self.may_be_kept(groups, times) & _is_later(times, groups, cutoff),
            groups,
            times,
            columns,
        )
        live = _is_later(self.times, self.groups, cutoff)
        if not groups.size and live.all():
            return self._trimmed(self.groups, self.times, self.columns, cutoff)
        if self.times.size:
            old_groups, old_times, old = _only(live, self.groups, self.times, self.columns)
            groups = np.concatenate([old_groups, groups])
            times = np.concatenate([old_times, times])
            columns = tuple(np.concatenate(pair) for pair in zip(old, columns, strict=True))
        if self.distinct:
            groups, times, columns = _most_recent(groups, times, columns)
        return self._trimmed(groups, times, columns, cutoff)

    def united(self, cutoff: Int64Array) -> "LevelSample":
        """The sample of the union, where keys have become one (:meth:`renamed`). Exact."""
        edge_groups, edges = self.edge_groups, self.edges
        if edges.size:
            order = np.lexsort((edges, edge_groups))
            edge_groups, edges = edge_groups[order], edges[order]
            last = np.append(run_starts(edge_groups)[1:], edges.size) - 1
            edge_groups, edges = edge_groups[last], edges[last]
        none = self.only(np.empty(0, dtype=np.intp))
        joint = replace(none, edge_groups=edge_groups, edges=edges)
        return joint.absorb(self.groups, self.times, self.columns, cutoff)

    def query_levels(self, since: Int64Array) -> Int64Array:
        """ℓ for the elements later than ``since``, per key; ``NO_LEVEL`` if all are present."""
        levels = np.full(since.size, NO_LEVEL)
        overflowed = np.flatnonzero(self.edges > since[self.edge_keys])
        np.maximum.at(levels, self.edge_keys[overflowed], self.edge_levels[overflowed] + 1)
        return levels

    def in_order(self) -> "LevelSample":
        """The same sample, elements by group, then newest first, then by the further columns."""
        order = _newest_first(self.groups, self.times)
        groups, times, columns = take(order, self.groups, self.times, self.columns)
        numeric = [column for column in columns if column.dtype != object]
        tied = np.zeros(times.size + 1, dtype=np.bool_)
        tied[1:-1] = (times[1:] == times[:-1]) & (groups[1:] == groups[:-1])
        rows = np.flatnonzero(tied[1:] | tied[:-1])
        if rows.size:
            again = np.lexsort((*(c[rows] for c in reversed(numeric)), ~times[rows], groups[rows]))
            for column in columns:
                column[rows] = column[rows[again]]
        return replace(self, groups=groups, times=times, columns=columns)

    def flaw(self, cutoff: Int64Array) -> str | None:
        """What keeps this from being a sample that :meth:`absorb` could have made, if anything."""
        if (np.diff(self.edge_groups) <= 0).any():
            return "levels out of order"
        if (self.edges <= cutoff[self.edge_keys]).any():
            return "an edge that has expired"
        if (self.times <= cutoff[self.keys]).any():
            return "an element that has expired"
        if not self.may_be_kept(self.groups, self.times).all():
            return "an element that its level has forgotten"
        if _full_groups(self.groups, self.capacity).size:
            return "a level with too many elements"
        if self.distinct:
            order = np.lexsort((self.columns[0], self.groups))
            starts = run_starts(self.groups[order], self.columns[0][order])
            if starts.size < self.groups.size:
                return "an item that is there twice"
        return None

    def _trimmed(
        self, groups: Int64Array, times: Int64Array, columns: Columns, cutoff: Int64Array
    ) -> "LevelSample":
        """This sample with the given elements, every level cut to its capacity."""
        edge_groups, edges = self.edge_groups, self.edges
        full = _full_groups(groups, self.capacity)
        if full.size:
            slot = _slots(groups, full)
            overflowing = np.flatnonzero(slot >= 0)
            slot = slot[overflowing]
            times_there = times[overflowing]
            ends = np.cumsum(np.bincount(slot, minlength=full.size))
            risen = _sorted_times(slot, times_there, ends)[ends - 1 - self.capacity]
            dropped = overflowing[times_there <= risen[slot]]
            keep = np.ones(groups.size, dtype=np.bool_)
            keep[dropped] = False
            groups, times, columns = take(np.flatnonzero(keep), groups, times, columns)
            untouched = ~np.isin(edge_groups, full)
            edge_groups = np.concatenate([edge_groups[untouched], full])
            edges = np.concatenate([edges[untouched], risen])
            order = np.argsort(edge_groups)
            edge_groups, edges = edge_groups[order], edges[order]
        live = edges > cutoff[edge_groups >> _LEVEL_BITS]
        left = edge_groups[live], edges[live]
        return LevelSample(self.capacity, self.distinct, groups, times, columns, *left)


class Places:
    """Where the elements of a sample are, worked out once for many questions."""

    def __init__(self, sample: LevelSample) -> None:
        self.keys, self._sample = sample.keys, sample
        self._groups, self._places = _numbered(sample.groups)

    def levels_of_at_most(self, count: int, since: int, size: int) -> Int64Array:
        """ℓ per key, with at most ``count`` elements later than ``since`` at levels from ℓ on.

        Whether an element is one of them does not depend on its own coin, given that it is: with a
        lower one ℓ would be the same. So what the sample says is unbiased, which it is not if the
        lowest level that has forgotten nothing is taken (Ting 2017, *Adaptive Threshold Sampling*:
        such thresholds are substitutable).
        """
        later = self._places[self._sample.times > since]
        below = offsets(np.bincount(later, minlength=self._groups.size))
        keys = self._groups >> _LEVEL_BITS
        ends = below[np.searchsorted(keys, keys, side="right")]
        too_many = np.flatnonzero(ends - below[:-1] > count)
        levels = self._sample.query_levels(np.full(size, since))
        np.maximum.at(levels, keys[too_many], _level_of(self._groups[too_many]) + 1)
        return levels


def _numbered(groups: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The different groups, ascending, and which of them each is."""
    if not groups.size:
        return groups, groups
    numbers = _Numbers(groups)
    if not numbers.fit:
        different, which = np.unique(groups, return_inverse=True)
        return different, which
    slots = numbers.of(groups)
    used = np.flatnonzero(np.bincount(slots))
    table = np.empty(numbers.size, dtype=np.int64)
    table[used] = np.arange(used.size)
    return numbers.groups(used), table[slots]


def _rows_of(keys: Int64Array, owners: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The rows that each of some keys owns, one key after the other, and how many these are."""
    if keys.size == 1:
        rows = np.flatnonzero(owners == keys[0])
        return rows, np.array([rows.size])
    size = int(max(keys.max(initial=-1), owners.max(initial=-1))) + 1
    wanted = np.zeros(size, dtype=np.bool_)
    wanted[keys] = True
    rows = np.flatnonzero(wanted[owners])
    rows = rows[stable_order(owners[rows])]
    owned = np.bincount(owners[rows], minlength=size)
    counts = owned[keys]
    return rows[ranges(offsets(owned)[:-1][keys], counts)], counts


def _level_of(groups: Int64Array) -> Int64Array:
    levels: Int64Array = (groups & (2**_LEVEL_BITS - 1)) - _LEVEL_ZERO
    return levels


def take(
    index: NDArray[np.intp], groups: Int64Array, times: Int64Array, columns: Columns
) -> tuple[Int64Array, Int64Array, Columns]:
    """Return some of the elements."""
    return groups[index], times[index], tuple(column[index] for column in columns)


def _only(
    wanted: BoolArray, groups: Int64Array, times: Int64Array, columns: Columns
) -> tuple[Int64Array, Int64Array, Columns]:
    if wanted.all():
        return groups, times, columns
    return take(np.flatnonzero(wanted), groups, times, columns)


def _is_later(times: Int64Array, groups: Int64Array, cutoff: Int64Array) -> BoolArray:
    """Whether elements are later than the cutoff of their key."""
    later: BoolArray = times > (cutoff[0] if cutoff.size == 1 else cutoff[groups >> _LEVEL_BITS])
    return later


class _Numbers:
    """Numbers of groups, for tables: without the levels that none of them has.

    Other groups have numbers that none of these has.
    """

    def __init__(self, groups: Int64Array) -> None:
        self._low, high = int(groups.min()), int(groups.max())
        self.is_dense = high - self._low < _DENSE
        self.size = high - self._low + 3
        if not self.is_dense:
            levels = groups & (2**_LEVEL_BITS - 1)
            self._level = int(levels.min()) - 1
            self._width = int(levels.max()) - self._level + 2
            self._key = (self._low >> _LEVEL_BITS) - 1
            self._keys = (high >> _LEVEL_BITS) - self._key + 2
            self.size = self._keys * self._width
        self.fit = self.size <= _TABLE

    def of(self, groups: Int64Array) -> Int64Array:
        """Return the numbers, in [0, size), of groups."""
        if self.is_dense:
            return np.clip(groups - (self._low - 1), 0, self.size - 1)
        keys = np.clip((groups >> _LEVEL_BITS) - self._key, 0, self._keys - 1)
        levels = (groups & (2**_LEVEL_BITS - 1)) - self._level
        numbers: Int64Array = keys * self._width + np.clip(levels, 0, self._width - 1)
        return numbers

    def groups(self, numbers: Int64Array) -> Int64Array:
        """Return the groups that have these numbers."""
        if self.is_dense:
            return numbers + (self._low - 1)
        keys, levels = np.divmod(numbers, self._width)
        return ((keys + self._key) << _LEVEL_BITS) + levels + self._level


class Edges:
    """The edges of a sample, to be looked up for many elements."""

    def __init__(self, sample: LevelSample) -> None:
        self._groups, self._edges = sample.edge_groups, sample.edges
        if self._edges.size:
            self._numbers = _Numbers(self._groups)
            if self._numbers.fit:
                self._table = np.full(self._numbers.size, INT64_MIN)
                self._table[self._numbers.of(self._groups)] = self._edges

    def of(self, groups: Int64Array) -> Int64Array:
        """The edge of each group; the beginning of time if it has none."""
        if not self._edges.size:
            return np.broadcast_to(np.int64(INT64_MIN), groups.shape)
        if self._numbers.fit:
            return self._table[self._numbers.of(groups)]
        i = np.minimum(np.searchsorted(self._groups, groups), self._edges.size - 1)
        return np.where(self._groups[i] == groups, self._edges[i], INT64_MIN)


def _full_groups(groups: Int64Array, capacity: int) -> Int64Array:
    """Groups with more than ``capacity`` elements, ascending."""
    if groups.size <= capacity:
        return groups[:0]
    numbers = _Numbers(groups)
    if numbers.fit:
        return numbers.groups(np.flatnonzero(np.bincount(numbers.of(groups)) > capacity))
    distinct, counts = np.unique(groups, return_counts=True)
    return distinct[counts > capacity]


def _slots(groups: Int64Array, full: Int64Array) -> Int64Array:
    """Where each group stands in ``full`` (ascending), −1 where it does not."""
    numbers = _Numbers(full)
    if numbers.fit:
        table = np.full(numbers.size, -1)
        table[numbers.of(full)] = np.arange(full.size)
        return table[numbers.of(groups)]
    slot = np.minimum(np.searchsorted(full, groups), full.size - 1)
    return np.where(full[slot] == groups, slot, -1)


def _newest_first(groups: Int64Array, times: Int64Array) -> NDArray[np.intp]:
    """The order by group, then time, newest first.

    Rows are brought together by group. Then, some groups at a time, group, time and row are packed
    into one number each: sorting numbers is several times faster than sorting indices.
    """
    if not groups.size:
        return np.empty(0, dtype=np.intp)
    levels = groups & (2**_LEVEL_BITS - 1)
    lowest, newest = int(levels.min()), int(times.max())
    time_bits = (newest - int(times.min())).bit_length()
    row_bits = (63 - time_bits) // 2
    if row_bits < _LEAST_ROW_BITS:
        return np.lexsort((~times, groups))
    # Groups by their number, without the levels that none has.
    keys = groups >> _LEVEL_BITS
    numbers = (keys - int(keys.min())) * (int(levels.max()) - lowest + 1) + (levels - lowest)
    order = stable_order(numbers)
    numbers = numbers[order]
    most, begin = 1 << row_bits, 0
    while begin < order.size:
        end = min(begin + min(most, _BLOCK), order.size)
        if end < order.size:  # between two groups
            end = int(np.searchsorted(numbers, numbers[end - 1]))
        if end <= begin:
            end = int(np.searchsorted(numbers, numbers[begin], side="right"))
        rows = order[begin:end]
        if end - begin > most or int(numbers[end - 1] - numbers[begin]) >= most:
            order[begin:end] = rows[np.lexsort((~times[rows], groups[rows]))]
        else:
            packed = (numbers[begin:end] - numbers[begin]) << time_bits
            packed = (packed + (newest - times[rows])) << row_bits
            packed += np.arange(end - begin)
            packed.sort()
            order[begin:end] = rows[packed & (most - 1)]
        begin = end
    return order


def _sorted_times(slot: Int64Array, times: Int64Array, ends: Int64Array) -> Int64Array:
    """Times by slot, then ascending. Sorting one number is much faster than sorting indices."""
    first = int(times.min())
    span = int(times.max()) - first + 1
    if span * ends.size < 2**63:
        packed = np.sort(slot * span + (times - first))
        sizes = np.diff(ends, prepend=0)
        unpacked: Int64Array = packed - np.repeat(np.arange(ends.size) * span - first, sizes)
        return unpacked
    order = np.argsort(times)
    return times[order[stable_order(slot[order])]]


def _most_recent(
    groups: Int64Array, times: Int64Array, columns: Columns
) -> tuple[Int64Array, Int64Array, Columns]:
    """One element for each item of a key, with its most recent time.

    Rows come together by sorting their hashes, whose low bits give way to the number of the row:
    sorting numbers is several times faster than sorting indices.
    """
    row_bits = np.uint64(max(1, groups.size.bit_length()))
    packed = _hashes(columns[0], groups) >> row_bits << row_bits
    packed |= np.arange(groups.size, dtype=np.uint64)
    packed.sort()
    again = np.zeros(groups.size + 1, dtype=np.bool_)
    hashes = packed >> row_bits
    np.equal(hashes[1:], hashes[:-1], out=again[1:-1])
    together = np.flatnonzero(again[1:] | again[:-1])
    if not together.size:
        return groups, times, columns
    rows = (packed[together] & ((np.uint64(1) << row_bits) - np.uint64(1))).view(np.int64)
    starts = np.flatnonzero(~again[together])
    if starts.size < run_starts(columns[0][rows], groups[rows]).size:
        # Different items have a hash in common.
        rows = rows[np.lexsort((columns[0][rows], groups[rows]))]
        starts = run_starts(columns[0][rows], groups[rows])
    times = times.copy()
    times[rows[starts]] = np.maximum.reduceat(times[rows], starts)
    kept = np.ones(groups.size, dtype=np.bool_)
    kept[rows] = False
    kept[rows[starts]] = True
    return take(np.flatnonzero(kept), groups, times, columns)


def _hashes(identity: UInt64Array, groups: Int64Array) -> UInt64Array:
    hashes: UInt64Array = identity.view(np.uint64) * _ODD_1 + groups.view(np.uint64) * _ODD_2
    return hashes


def surely_repeated(identity: UInt64Array, groups: Int64Array, times: Int64Array) -> BoolArray:
    """Rows whose item comes again, as late or later, further down; most such, not all.

    Each row writes its number into a slot that its hash picks, so that the last one of an item
    stays, unless another item has the slot.
    """
    hashes = _hashes(identity, groups)
    bits = identity.size.bit_length() + 2
    slot = (hashes >> np.uint64(64 - bits)).view(np.int64)
    table = np.empty(1 << bits, dtype=np.int32)
    rows = np.arange(identity.size, dtype=np.int32)
    table[slot] = rows
    last = table[slot]
    repeated: BoolArray = (identity[last] == identity) & (last != rows)
    repeated &= (times[last] >= times) & (groups[last] == groups)
    return repeated
