"""The pages whose examples need a Spark session."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/spark.md",
        "docs/functions.md",
        "docs/daily_sketches.md",
        "docs/extending.md",
    ],
)
def test_examples(spark, page, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(
        str(ROOT / page),
        module_relative=False,
        encoding="utf-8",
        globs={"spark": spark},
        optionflags=doctest.ELLIPSIS,  # the last digits are the machine's
    )
    assert result.attempted > 5
    assert result.failed == 0
