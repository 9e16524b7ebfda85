import os
import sys
from pathlib import Path

import pytest

# Workers must run this Python, and find the sketch that a test defines.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYTHONPATH"] = str(Path(__file__).parent)


def pytest_collection_modifyitems(items):
    """One worker, hence one JVM, for all of them but those that start their own."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            alone = item.path.name in ("test_connect.py", "test_cluster.py")
            item.add_marker(pytest.mark.xdist_group("alone" if alone else "spark"))


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
