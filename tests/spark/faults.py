"""Tasks that fail at their first attempt, as a program, since retries need their own session.

It prints the requested results if every sketch is that of the rows, and fails otherwise.
"""

import sys
import tempfile
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from sessions import Visits, session

from recency import ExponentialHistogram, RandomizedWave, SumWave
from recency.spark import merge_df, on, sketch_df, sketch_many

VISITS = Visits(200_000)
USERS, AMOUNTS, COUNTS = RandomizedWave(50_000), SumWave(50_000), ExponentialHistogram(50_000)


def failing(folder):
    """A mapper that emits a batch and then fails, at the first attempt of a third of the tasks."""

    def fails(batches):
        task = TaskContext.get()
        for batch in batches:
            yield batch
            if task.attemptNumber() == 0 and task.partitionId() % 3 == 0:
                (Path(folder) / str(task.taskAttemptId())).touch()
                raise RuntimeError("at first everything fails")

    return fails


def main():
    builder = SparkSession.builder.master("local[2,4]")
    spark = session(builder, spark__sql__execution__arrow__maxRecordsPerBatch="5000")
    spark.sparkContext.setLogLevel("OFF")
    visits = VISITS.frame(spark, 9)
    with tempfile.TemporaryDirectory() as folder:
        clumsy = visits.mapInArrow(failing(folder), visits.schema)
        failures = []

        def same(name, got, wanted):
            assert got == wanted, name
            assert got.to_bytes() == wanted.to_bytes(), name
            failed = len(list(Path(folder).iterdir()))
            assert failed > (failures[-1] if failures else 0), f"{name}: no task failed"
            failures.append(failed)

        users = VISITS.update(USERS.copy(), item="user")
        same("sketch_df", sketch_df(clumsy, USERS, at="at", item="user"), users)
        grouped = sketch_df(clumsy, USERS, at="at", item="user", by="page", shuffle="partials")
        same("partials", merge_df(grouped), users)
        grouped = sketch_df(clumsy, USERS, at="at", item="user", by="page", shuffle="rows")
        same("rows", merge_df(grouped), users)
        many = {
            "users": on(USERS, at="at", item="user"),
            "amounts": on(AMOUNTS, at="at", value="user", id="at"),
            "counts": on(COUNTS, at="at"),
        }
        together = sketch_many(clumsy, many)
        same("many", together["users"], users)
        assert together["amounts"] == VISITS.update(AMOUNTS.copy(), value="user", id="at")
        calm = sketch_many(visits, many)["counts"]
        assert together["counts"].to_bytes() == calm.to_bytes()
        answer = calm.query(20_000)
        assert answer.lower <= 20_000 <= answer.upper
        print(f"the same sketches after {failures[-1]} failures")
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
