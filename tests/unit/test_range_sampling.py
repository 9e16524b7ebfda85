"""Progressions modulo p against the terms themselves, for small moduli and for the one in use."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recency.core import range_sampling
from recency.core.range_sampling import MOST_TERMS, PRIME, first_hit, range_hits, range_min


def is_prime(n):
    """Miller & Rabin; these bases decide all n below 3·10¹⁸."""
    d, r = n - 1, 0
    while d % 2 == 0:
        d, r = d // 2, r + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(base, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(r - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def test_the_modulus_is_the_largest_prime_below_two_to_the_43rd():
    assert is_prime(PRIME)
    assert not any(is_prime(n) for n in range(PRIME + 1, 2**43))
    assert MOST_TERMS * PRIME < 2**63  # so that no term overflows before it is reduced


def compare(prime, rows):
    """Compare all three functions at once; each row has its own progression."""
    start, step, terms, limit = np.array(rows, dtype=np.int64).T
    smallest = range_min(start, step, terms, prime)
    hits = range_hits(start, step, terms, limit, prime)
    first = first_hit(start, step, terms, limit, prime)
    for i, (u, a, n, most) in enumerate(rows):
        values = (u + np.arange(n) * a) % prime
        assert smallest[i] == values.min(), (u, a, n, prime)
        small = np.flatnonzero(values < most)
        assert hits[i] == small.size, (u, a, n, most, prime)
        assert first[i] == (small[0] if small.size else -1), (u, a, n, most, prime)


def progressions(prime, most_terms):
    value = st.integers(0, prime - 1)
    edge = st.sampled_from(sorted({0, 1 % prime, prime // 2, prime - prime // 2 - 1, prime - 1}))
    row = st.tuples(
        value | edge,
        value | edge,
        st.integers(1, most_terms),
        st.integers(1, prime) | st.sampled_from([1, prime]),
    )
    return st.lists(row, min_size=1, max_size=20)


@settings(max_examples=300)
@given(prime=st.sampled_from([2, 3, 5, 7, 13, 97, 101, 997]), data=st.data())
def test_small_moduli(prime, data):
    compare(prime, data.draw(progressions(prime, 3 * prime)))


@pytest.mark.parametrize("prime", [2, 3, 5, 7, 11])
def test_every_progression_of_a_tiny_modulus(prime):
    compare(
        prime,
        [
            (u, a, n, most)
            for u in range(prime)
            for a in range(prime)
            for n in range(1, 2 * prime + 1)
            for most in range(1, prime + 1)
        ],
    )


@settings(max_examples=100)
@given(data=st.data())
def test_the_modulus_in_use(data):
    compare(PRIME, data.draw(progressions(PRIME, 3000)))


def test_the_modulus_in_use_with_most_terms():
    rng = np.random.default_rng(7)
    starts = [0, 1, PRIME - 1, *rng.integers(0, PRIME, 5).tolist()]
    steps = [1, 2, PRIME // 2, PRIME // 2 + 1, PRIME - 1, PRIME // 3, *rng.integers(0, PRIME, 5)]
    for level in (0, 1, 10, 17, 23, 42):
        limit = PRIME >> level
        compare(PRIME, [(u, int(a), MOST_TERMS, limit) for u in starts[:4] for a in steps])


def test_steps_are_few(monkeypatch):
    """O(log n): the number of terms at least halves with every step."""
    terms = []
    slowly = range_sampling._slowly

    def watched(u, a, n, p):
        terms.append(int(n.max()))
        return slowly(u, a, n, p)

    monkeypatch.setattr(range_sampling, "_slowly", watched)
    u, a = np.random.default_rng(8).integers(0, PRIME, (2, 2000))
    range_min(u, a, np.full(2000, MOST_TERMS), PRIME)
    assert len(terms) <= 21
    assert all(2 * after <= before + 1 for before, after in pairwise(terms))
