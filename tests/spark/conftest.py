import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

ALONE = ("test_cluster.py", "test_faults.py")


def pytest_collection_modifyitems(items):
    """Use one worker, hence one JVM, for all tests except those that start their own."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            alone = item.path.name in ALONE
            item.add_marker(pytest.mark.xdist_group("alone" if alone else "spark"))


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession
    from sessions import session

    made = session(SparkSession.builder.master("local[2]"))
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
