"""Pickles of earlier releases can be loaded, though the modules that they name have moved.

``pickles/*.pickle`` were written by 0.1 before modules moved: each saw the times 3, 5 and 9.
"""

import pickle
from importlib import import_module
from pathlib import Path

import pytest

import recency
from recency.moved import MOVED

PICKLES = sorted((Path(__file__).parent / "pickles").glob("*.pickle"))


def test_there_is_a_pickle_of_each_class_that_moved():
    assert len(PICKLES) == len(MOVED) == 10


@pytest.mark.parametrize("path", PICKLES, ids=lambda path: path.stem)
def test_pickles_of_earlier_releases_load(path):
    sketch = pickle.loads(path.read_bytes())
    assert type(sketch) is getattr(recency, path.stem)
    assert sketch.latest == 9
    again = pickle.loads(pickle.dumps(sketch))
    assert again == sketch


@pytest.mark.parametrize("old", MOVED)
def test_an_old_module_name_gives_the_same_module(old):
    module = import_module(old)
    assert module is import_module(MOVED[old])
    assert module.__spec__.name == module.__name__ == MOVED[old]
