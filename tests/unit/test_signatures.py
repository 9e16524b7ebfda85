"""Constructors read alike: two or three settings by position, the others by name, in one order."""

from dataclasses import fields
from inspect import Parameter, signature

import pytest

import recency
from recency import Sketch

CLASSES = [
    each
    for each in map(vars(recency).get, recency.__all__)
    if isinstance(each, type) and issubclass(each, Sketch) and each is not Sketch
]
POSITIONAL = ["decay", "window", "relative_error", "rank_error", "confidence"]
BY_NAME = ["by", "late", "stream", "capacity", "cell_capacity", "seed", "unit"]


def parameters(cls):
    return list(signature(cls).parameters.values())


def names_of(cls, kind):
    return [each.name for each in parameters(cls) if each.kind is kind]


def in_order(names, order):
    common = [name for name in names if name in order]
    return common == sorted(common, key=order.index)


@pytest.mark.parametrize("cls", CLASSES)
def test_settings_after_the_third_are_given_by_name(cls):
    positional = names_of(cls, Parameter.POSITIONAL_OR_KEYWORD)
    assert len(positional) <= 3
    assert set(positional) <= set(POSITIONAL)
    with pytest.raises(TypeError, match="positional argument"):
        cls(*(each.default for each in parameters(cls)))


@pytest.mark.parametrize("cls", CLASSES)
def test_common_settings_come_in_one_order(cls):
    # A decayed sample has its decay third, and may have none: it is chosen when asked, mostly.
    order = POSITIONAL[1:] if cls is recency.DecayedSample else POSITIONAL
    assert in_order(names_of(cls, Parameter.POSITIONAL_OR_KEYWORD), order)
    assert in_order(names_of(cls, Parameter.KEYWORD_ONLY), BY_NAME)


@pytest.mark.parametrize("cls", CLASSES)
def test_fields_of_configurations_are_parameters_of_the_constructor(cls):
    settings = {each.name for each in fields(cls.config_class)}
    assert {each.name for each in parameters(cls)} - settings <= {"stream"}
