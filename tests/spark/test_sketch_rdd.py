import json

import numpy as np
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from recency import ExponentialHistogram, RandomizedWave, SumWave
from recency.spark import sketch_rdd


def columns(rows):
    return {"item": [row[0] for row in rows], "at": [row[1] for row in rows]}


def times(rows):
    return {"at": [row[1] for row in rows]}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    return list(zip(rng.integers(0, 500, 12_000).tolist(), range(12_000), strict=True))


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_one_sketch_of_all_elements(spark, rows, partitions):
    rdd = spark.sparkContext.parallelize(rows, partitions)
    prototype = RandomizedWave(capacity=50)
    expected = prototype.empty_like()
    expected.update_many(**columns(rows))
    assert sketch_rdd(rdd, prototype, columns) == expected
    shuffled = spark.sparkContext.parallelize(rows[1::2] + rows[::2], partitions)
    sketch = sketch_rdd(shuffled, ExponentialHistogram(), times, depth=3)
    assert sketch.guarantee <= 0.05
    for window in (10, 1_000, 12_000):
        answer = sketch.query(window)
        assert answer.lower <= window <= answer.upper


def test_an_empty_rdd(spark):
    context = spark.sparkContext
    for rdd in (context.emptyRDD(), context.parallelize([], 3)):
        assert sketch_rdd(rdd, SumWave(), times) == SumWave()


def test_refused(spark):
    rdd = spark.sparkContext.parallelize([(1, 2)], 1)
    with pytest.raises(TypeError, match="sketch_rdd: rdd must be an RDD, got list"):
        sketch_rdd([], SumWave(), times)
    with pytest.raises(TypeError, match="to_columns must be a function"):
        sketch_rdd(rdd, SumWave(), {})
    with pytest.raises(ValueError, match=r"sketch_rdd: .*count-based"):
        sketch_rdd(rdd, ExponentialHistogram(by="count"), times)
    refused = (PythonException, Py4JJavaError)  # which one depends on the version of Spark
    with pytest.raises(refused, match="TypeError: sketch_rdd: "):
        sketch_rdd(rdd, SumWave(), columns)
    with pytest.raises(refused, match="JSONDecodeError: Expecting value"):
        sketch_rdd(rdd, SumWave(), lambda rows: json.loads("oops"))
