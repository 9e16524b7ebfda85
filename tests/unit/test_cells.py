"""Cells of many keys: equal to those of each key alone, and none for empty cells."""

import numpy as np
import pytest

from recency import Bank, DyadicEcm, EcmSketch, NoAnswerError, decode_many, loads, merge_all
from recency.algorithm import View
from recency.frequencies.cell_sketch import CellSketch
from recency.keyed import joined
from states import body_of

MAKERS = {
    **{f"ecm-{c}": lambda c=c: EcmSketch(500, 0.2, counter=c) for c in ("eh", "dw", "rw")},
    "product": lambda: EcmSketch(500, 0.2, optimize_for="inner_product", late="clamp"),
    "count": lambda: EcmSketch(50, 0.2, by="count"),
    "dyadic": lambda: DyadicEcm(500, 0.3, universe_bits=12),
    "dyadic-rw": lambda: DyadicEcm(500, 0.3, universe_bits=8, counter="rw", depth=2, range_depth=1),
    "names": lambda: DyadicEcm(500, 0.3, names=True, name_capacity=5),
}


def filled(make, keys=7, rows=3_000, seed=1):
    """Return a bank whose last key only has rows of weight 0."""
    rng = np.random.default_rng(seed)
    bank = Bank(make())
    key = rng.integers(0, keys - 1, rows)
    columns = {"item": rng.zipf(1.5, rows) % 200, "weight": rng.integers(0, 3, rows)}
    if bank.prototype.config.by == "time":
        columns["at"] = np.sort(rng.integers(0, 2_000, rows)) + rows * (seed - 1)
    for begin in range(0, rows, 700):
        part = {name: column[begin : begin + 700] for name, column in columns.items()}
        bank.update_many(key[begin : begin + 700], **part)
    at = {"at": 10**4 * seed} if bank.prototype.config.by == "time" else {}
    bank.update_many(keys - 1, item=1, weight=0, **at)
    return bank


def view_of(bank):
    keyed = bank._keyed
    return View(keyed.algorithm, keyed.state())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("window", [None, 1, 37])
def test_questions_about_all_keys_are_those_about_each(make, window):
    bank = filled(make)
    view, sketches = view_of(bank), [sketch for _, sketch in bank.items()]
    items = np.arange(0, 12)
    many = CellSketch.query_many.question.answer(view, items, window)
    one, total = (
        ask.question.answer(view, *item, window)
        for ask, item in ((CellSketch.query, [3]), (CellSketch.total, []))
    )
    guarantees = view.algorithm.guarantee(view.state)
    for i, sketch in enumerate(sketches):
        for all_keys, own in (
            (many, sketch.query_many(items, window)),
            (one, sketch.query(3, window)),
            (total, sketch.total(window)),
        ):
            for name in ("value", "lower", "upper"):
                assert np.array_equal(getattr(all_keys, name)[i], getattr(own, name)), name
            assert np.max(all_keys.confidence[i]) == own.confidence
        assert guarantees[i] == sketch.guarantee
    if isinstance(bank.prototype, EcmSketch):
        joins = EcmSketch.self_join.question.answer(view, window)
        for i, sketch in enumerate(sketches):
            own = sketch.self_join(window)
            assert (joins.value[i], joins.lower[i], joins.upper[i]) == (
                own.value,
                own.lower,
                own.upper,
            )
            assert joins.confidence[i] == own.confidence


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "count"])
def test_merging_many_keys_equals_merging_each_key(name):
    make = MAKERS[name]
    prototype = make()
    mine, theirs = ([s for _, s in filled(make, seed=seed).items()] for seed in (1, 2))
    if prototype.merge_law == "exact" or name == "names":
        theirs = [loads(each.to_bytes()) for each in theirs]
    alone, nothing = mine[0].copy(), prototype.empty_like(merge_levels=2)
    keyed = [each._keyed for each in (*mine, *theirs, alone, nothing, nothing)]
    size = len(mine)
    into = np.array([*range(size), *range(size), size, size, size + 1])
    together = [prototype._with(each) for each in joined(keyed).merged(into, size + 2).split()]
    expected = [merge_all(pair) for pair in zip(mine, theirs, strict=True)]
    assert together[:size] == expected
    assert together[size] == alone
    assert together[size + 1] == nothing
    assert decode_many([each.to_bytes() for each in together]) == together


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_expires_later_has_no_effect(make):
    """A few events only update their cells; the others keep expired entries."""
    sketch = make()
    by_time = sketch.config.by == "time"
    rng = np.random.default_rng(3)
    for at in np.cumsum(rng.choice([0, 1, 5, 90], 300)).tolist():
        columns = {"at": at} if by_time else {}
        sketch.update(int(rng.integers(0, 40)), weight=int(rng.integers(0, 3)), **columns)
        again = loads(sketch.to_bytes())
        assert again == sketch
        for window in (None, 1, 49):
            assert sketch.query_many(range(40), window) == again.query_many(range(40), window)
            assert sketch.total(window) == again.total(window)


def test_cells_without_events_cost_nothing():
    for make in MAKERS.values():
        bank = Bank(make())
        bank.update_many(
            np.arange(1_000), item=1, weight=0, **({} if make().config.by == "count" else {"at": 1})
        )
        keyed = bank._keyed
        assert keyed.state().body.nbytes <= 16 * 1_000
    sketch = DyadicEcm()
    sketch.update(5, at=1)
    assert body_of(sketch).nbytes < 10_000


def test_quantiles_of_empty_windows_have_no_answer():
    with pytest.raises(NoAnswerError):
        DyadicEcm().quantile()
