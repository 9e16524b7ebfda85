import inspect

import pytest

import recency
from cases import CASES
from recency.testing import checks


@pytest.mark.parametrize("check", [check for case in CASES for check in checks(case)], ids=str)
def test_law(check):
    check()


def test_every_exported_sketch_has_a_case():
    exported = {
        value
        for name in recency.__all__
        if inspect.isclass(value := getattr(recency, name))
        and issubclass(value, recency.Sketch)
        and value is not recency.Sketch
    }
    assert exported == {type(case.make()) for case in CASES}


def test_an_exception_that_holds_is_an_error():
    from dataclasses import replace

    case = replace(CASES[0], exceptions={"merging_commutes": "no reason"})
    check = next(c for c in checks(case) if c.law.__name__ == "merging_commutes")
    with pytest.raises(AssertionError, match="holds although"):
        check()
    with pytest.raises(ValueError, match="exceptions must name laws"):
        checks(replace(CASES[0], exceptions={"no such law": "x"}))
