"""Arithmetic progressions modulo p, and where they are small.

Cormode, Tirthapura & Xu 2009 (*Time-Decaying Sketches*, §3.2, §3.3) give an element of weight w a
range of w integers, of which those are sampled whose hash is small. The hashes of a range are a
progression u, u + a, u + 2a, … modulo a prime p; three questions about it take O(log n) steps each:

* :func:`range_min`: the smallest of the first n, which says how high the element's level is;
* :func:`range_hits`: how many of the first n are below a limit, which is what it stands for
  (Pavan & Tirthapura 2007, *RangeSample*);
* :func:`first_hit`: the first one below a limit (Algorithm 5, MinHit), which says when it expires.

All rest on one observation (3.2 there). Let a ≤ p/2. The progression climbs by a until it wraps
around; the first term after each wrap is below a, and those terms are again a progression, modulo
a, with step −p. A smallest term, or a first small one, is the very first term or one of them. There
are at most n/2 wraps, so that n halves with every step. If a > p/2, walk backwards.

Arguments are int64 arrays of one shape; with n up to 2²⁰ and p below 2⁴³ nothing overflows.
"""

import numpy as np

from recency.core.arrays import Int64Array

PRIME = 2**43 - 57
MOST_TERMS = 2**20


def range_min(start: Int64Array, step: Int64Array, terms: Int64Array, prime: int) -> Int64Array:
    """The smallest of start + j·step modulo prime for 0 ≤ j < terms; terms ≥ 1."""
    smallest = start.copy()
    rows = np.arange(start.size)
    u, a, n, p = start, step, terms, np.full(start.size, prime)
    while rows.size:
        u, a = _slowly(u, a, n, p)
        smallest[rows] = np.minimum(smallest[rows], u)
        wraps = (u + (n - 1) * a) // p
        go_on = np.flatnonzero(wraps > 0)
        rows, u, n, p, a = rows[go_on], u[go_on], wraps[go_on], a[go_on], p[go_on]
        # The first term after the m-th wrap is u − m·p modulo the step, for m from 1 to `wraps`.
        u, a = (u - a) % p, -a % p
    return smallest


def _slowly(
    u: Int64Array, a: Int64Array, n: Int64Array, p: Int64Array | int
) -> tuple[Int64Array, Int64Array]:
    """First term and step of the same n terms, backwards where that makes the step smaller."""
    back = 2 * a > p
    return np.where(back, (u + (n - 1) * a) % p, u), np.where(back, p - a, a)


def range_hits(
    start: Int64Array, step: Int64Array, terms: Int64Array, limit: Int64Array, prime: int
) -> Int64Array:
    """How many of start + j·step modulo prime, 0 ≤ j < terms, are below limit (in [1, prime]).

    x mod p < L iff ⌊x/p⌋ − ⌊(x − L)/p⌋ is 1 and not 0: two sums of quotients tell.
    """
    start, step = _slowly(start, step, terms, prime)
    whole = _sum_of_quotients(terms, step, start, prime)
    hits: Int64Array = (
        terms + whole - _sum_of_quotients(terms, step, start + (prime - limit), prime)
    )
    return hits


def _sum_of_quotients(n: Int64Array, a: Int64Array, b: Int64Array, prime: int) -> Int64Array:
    """Σ ⌊(a·j + b)/p⌋ over 0 ≤ j < n, by counting lattice points row by row, then by column."""
    total = np.zeros(n.size, dtype=np.int64)
    rows, m = np.arange(n.size), np.full(n.size, prime)
    while rows.size:
        total[rows] += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        go_on = np.flatnonzero(top >= m)
        rows, a, m, top = rows[go_on], a[go_on], m[go_on], top[go_on]
        n, b, m, a = top // m, top % m, a, m
    return total


def first_hit(
    start: Int64Array, step: Int64Array, terms: Int64Array, limit: Int64Array, prime: int
) -> Int64Array:
    """The least j < terms with start + j·step modulo prime below limit; −1 if there is none."""
    found = np.full(start.size, -1)
    rows = np.arange(start.size)
    u, a, n, p, most = start, step, terms, np.full(start.size, prime), limit - 1
    on_the_way = []
    while rows.size:
        # Mirrored at the middle of [0, most], the same terms are small, and the step is p − a
        # (Lemma 3.8).
        back = 2 * a > p
        u, a = np.where(back, (most - u) % p, u), np.where(back, p - a, a)
        is_hit = u <= most
        found[rows[is_hit]] = 0
        wraps = (u + (n - 1) * a) // p
        go_on = np.flatnonzero(~is_hit & (wraps > 0))
        rows, u, a, p = rows[go_on], u[go_on], a[go_on], p[go_on]
        n, most = wraps[go_on], most[go_on]
        on_the_way.append((rows, u, a, p))
        u, a, p = (u - p) % a, -p % a, a
    # If the d-th of the terms after wraps is the first small one, where is it among all?
    for rows, u, a, p in reversed(on_the_way):
        hit = np.flatnonzero(found[rows] >= 0)
        rows, u, a, p = rows[hit], u[hit], a[hit], p[hit]
        wrap = found[rows] + 1
        term = ((u - p) % a + found[rows] * (-p % a)) % a
        found[rows] = (wrap * p - u + term) // a  # Lemma 3.7
    return found
