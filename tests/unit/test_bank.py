import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cases import CASES
from recency import (
    Bank,
    DecayedSample,
    ExponentialHistogram,
    NthRecentWave,
    OutOfOrderError,
    RandomizedWave,
    SumWave,
)
from recency.decay import Custom

PROTOTYPES = [
    ExponentialHistogram(window=100),
    ExponentialHistogram(window=100, late="clamp"),
    NthRecentWave(window=100),
    RandomizedWave(window=100, keep_items=True),
    SumWave(window=100),
]


def states(bank):
    return {key: sketch.to_bytes() for key, sketch in bank.items()}


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b", "a"],
        np.array(["a", "b", "a"]),
        np.array(["a", "b", "a"], dtype=object),
        pd.Series(["a", "b", "a"]),
        pa.array(["a", "b", "a"]),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_keys_come_in_any_column(keys):
    bank = Bank(SumWave())
    bank.update_many(keys, [1, 2, 3], at=[1, 2, 3])
    assert list(bank) == ["a", "b"]
    assert bank["a"].query().value == 4
    assert bank["b"].query().value == 2


def test_keys_are_equal_as_in_a_dict():
    bank = Bank(SumWave())
    for keys in ([7], np.array([7], dtype=np.int16), [np.int64(7)], 7, np.uint8(7)):
        bank.update_many(keys, at=[1])
    bank.update_many(("a", 1), at=[1, 2])
    bank.update_many([("a", 1), None], at=[1, 2])
    assert {key: sketch.query().value for key, sketch in bank.items()} == {
        7: 5,
        ("a", 1): 3,
        None: 1,
    }
    assert len(bank) == 3
    assert 7 in bank
    assert "x" not in bank
    with pytest.raises(KeyError):
        bank["x"]


def test_one_key_and_one_value_are_broadcast():
    bank = Bank(SumWave())
    bank.update_many("k", 2, at=[1, 2, 3])
    bank.update_many("k", at=5)
    bank.update_many(["k", "l"], [4, 5], at=6)
    assert bank["k"].query().value == 11
    assert bank["l"].query().value == 5


def test_sketches_of_a_bank_are_copies():
    for prototype in (ExponentialHistogram(), SumWave(), NthRecentWave()):
        bank = Bank(prototype)
        bank.update_many([1, 2], at=[1, 2])
        before = states(bank)
        bank[1].update(at=9)
        assert states(bank) == before


REFUSED = [
    ({"at": [201, 202]}, ValueError, "keys and at must have the same length, got 3 and 2"),
    ({"at": [201, 202, None]}, TypeError, "at"),
    ({"at": [201.5, 202, 203]}, TypeError, "at"),
    ({}, TypeError, "at"),
    ({"at": [200, 200, 200], "other": 5}, TypeError, "other"),
]


@pytest.mark.parametrize("prototype", PROTOTYPES, ids=repr)
@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
def test_a_refused_update_changes_nothing(prototype, arguments, error, message):
    item = {"item": "x"} if isinstance(prototype, RandomizedWave) else {}
    bank = Bank(prototype)
    bank.update_many([1, 2], at=[150, 160], **item)
    before = states(bank)
    with pytest.raises(error, match=message):
        bank.update_many([1, 3, 2], **item, **arguments)
    assert states(bank) == before
    bank.update_many([3], at=[170], **item)
    again = Bank(prototype)
    again.update_many([1, 2, 3], at=[150, 160, 170], **item)
    assert states(bank) == states(again)


def test_late_events_are_judged_key_by_key():
    bank = Bank(ExponentialHistogram())
    bank.update_many([1, 2], at=[100, 10])
    bank.update_many([2], at=[20])
    before = states(bank)
    with pytest.raises(OutOfOrderError, match=r"before the latest time seen \(100\), got 99"):
        bank.update_many([2, 1], at=[30, 99])
    assert states(bank) == before
    lenient = Bank(ExponentialHistogram(late="clamp"))
    lenient.update_many([1, 2], at=[100, 10])
    lenient.update_many([2, 1, 1], at=[30, 99, 101])
    assert [lenient[key].late_count for key in (1, 2)] == [1, 0]
    assert lenient[1].query(1).value == 1


def test_totals_are_checked_key_by_key():
    bank = Bank(ExponentialHistogram())
    bank.update_many([1, 2, 3], 2**62, at=[1, 1, 1])
    before = states(bank)
    with pytest.raises(ValueError, match="total must stay within int64"):
        bank.update_many([3, 2], 2**62, at=[2, 2])
    assert states(bank) == before
    bank.update_many([1, 2, 3, 4], 2**61, at=2)
    assert bank[4].query().value == 2**61
    assert bank[1].query().upper == 2**62 + 2**61


def test_a_bank_of_frames_needs_a_sketch_for_a_prototype():
    frame = ExponentialHistogram(10).to_bytes()
    with pytest.raises(TypeError, match="prototype must be a sketch, got str"):
        Bank.from_bytes({1: frame}, "x")


def test_an_empty_bank_is_written_even_if_its_decay_cannot_be():
    assert (
        Bank(DecayedSample(decay=Custom(lambda age: np.ones_like(age, dtype=float)))).to_bytes()
        == {}
    )


def test_prototypes_are_checked():
    with pytest.raises(TypeError, match="prototype must be a sketch, got int"):
        Bank(5)
    filled = SumWave()
    filled.update(at=1)
    with pytest.raises(ValueError, match="prototype must be empty"):
        Bank(filled)
    with pytest.raises(TypeError, match="too many positional arguments"):
        Bank(SumWave()).update_many([1], [2], [3], at=[4])
    assert repr(Bank(SumWave())) == "Bank(0 × SumWave)"
    bank = Bank(ExponentialHistogram(by="count", window=3))
    bank.update_many([1, 2, 1, 1, 1], [1, 1, 2, 3, 4])
    assert bank[1].query().value == 9


def test_a_total_that_other_keys_pass_by_is_still_checked():
    bank = Bank(ExponentialHistogram())
    bank.update_many("a", [2**62], at=[1])
    bank.update_many("a", [2**62 - 10], at=[2])
    bank.update_many("b", [100], at=[1])
    before = states(bank)
    with pytest.raises(ValueError, match=f"got {2**63 - 10} . 1000"):
        bank.update_many(["b", "a"], [5, 1000], at=[3, 3])
    assert states(bank) == before
    bank.update_many("a", [9], at=[3])
    assert bank["a"].query().upper == 2**63


def test_the_caller_may_reuse_its_arrays():
    for prototype in PROTOTYPES:
        item = {"item": np.array([7, 8, 9])} if isinstance(prototype, RandomizedWave) else {}
        at, keys = np.array([1, 2, 3]), np.array([5, 6, 5])
        bank, once = Bank(prototype), Bank(prototype)
        once.update_many(keys.copy(), at=at.copy(), **{k: v.copy() for k, v in item.items()})
        bank.update_many(keys, at=at, **item)
        for column in (at, keys, *item.values()):
            column[:] = 100
        assert states(bank) == states(once)


def test_scalars_are_broadcast():
    for prototype in (ExponentialHistogram(), SumWave(), NthRecentWave()):
        bank, alone = Bank(prototype), prototype.empty_like()
        bank.update_many(["a", "a", "b"], at=5)
        alone.update_many(at=[5, 5])
        assert bank["a"] == alone
    bank = Bank(ExponentialHistogram(by="count"))
    bank.update_many(["a", "a", "b"])
    bank.update_many(["a", "b", "a"], 3)
    assert (bank["a"].query().value, bank["b"].query().value) == (8, 4)


@pytest.mark.parametrize("prototype", PROTOTYPES, ids=repr)
def test_arguments_are_checked_against_the_signature_of_the_sketch(prototype):
    bank = Bank(prototype)
    with pytest.raises(TypeError, match=r"missing a required|at must be"):
        bank.update_many(["a"])
    item = [["x"]] if isinstance(prototype, RandomizedWave) else []
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        bank.update_many(["a"], *item, at=[1], other=[1])
    first = "item" if item else "value"
    with pytest.raises(TypeError, match="multiple values for argument"):
        bank.update_many(["a"], [1], at=[1], **{first: [1]})
    assert not len(bank)


@pytest.mark.parametrize(
    "keys", [iter([1]), {1}, {1: 2}, bytearray(b"ab")], ids=["iterator", "set", "dict", "bytearray"]
)
def test_keys_of_unsuitable_types_are_refused(keys):
    with pytest.raises(TypeError, match="keys must be a key, or a list or column of them"):
        Bank(SumWave()).update_many(keys, at=[1, 2])


def test_an_empty_batch_has_no_keys():
    bank = Bank(SumWave())
    bank.update_many("k", [], at=[])
    bank.update_many([], at=[])
    assert list(bank) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_banks_without_keys_merge(case):
    if "merging_commutes" in case.exceptions:
        return  # sketches of this configuration refuse to merge
    bank = Bank(case.make())
    assert bank.merge(Bank(case.make())).to_bytes() == {}
    filled = Bank(case.make())
    filled.update_many(["a"] * 3, **case.stream(3))
    expected = filled.to_bytes()
    assert bank.merge(filled).merge(Bank(case.make())).to_bytes() == expected
