"""Shared by programs and tests: how sessions are created, and exact answers about events."""

import os
import sys
from pathlib import Path

import numpy as np

# Workers must run this Python, and find what tests define, and the package where it is found here.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
)

OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # Jobs here are short: the optimising compiler of the JVM would take half of the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone": "America/New_York",
}


def session(builder, **options):
    """Return a quiet session; ``spark__x`` is the option ``spark.x``."""
    for key, value in OPTIONS.items() | options.items():
        builder = builder.config(key.replace("__", "."), value)
    return builder.getOrCreate()


class Visits:
    """Rows (at, user, page) that Spark and NumPy compute alike; page 0 has ``share`` of ten."""

    def __init__(self, rows, share=9):
        self.rows, self.share = rows, share

    def frame(self, spark, partitions):
        page = f"if(id % 10 < {self.share}, 0, id % 997) AS page"
        columns = ["id AS at", "id * 7919 % 100000 AS user", page]
        return spark.range(0, self.rows, 1, partitions).selectExpr(*columns)

    def update(self, sketch, page=None, **roles):
        """Return the sketch after all visits, or those to a page; ``roles`` are columns."""
        for begin in range(0, self.rows, 1 << 20):
            at = np.arange(begin, min(begin + (1 << 20), self.rows))
            if page is not None:
                pages = np.where(at % 10 < self.share, 0, at % 997)
                at = at[pages == page]
            columns = {"at": at, "user": at * 7919 % 100_000}
            sketch.update_many(at=at, **{role: columns[name] for role, name in roles.items()})
        return sketch
