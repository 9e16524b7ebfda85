"""Jobs that read files, and their numbers, to compare with those in another process.

This is a separate module, since pytest compiles tests differently, which changes Python
functions.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sessions import session

from recency import SumWave
from recency.spark.job_number import number_of_frame


def jobs(spark, path):
    """Return DataFrames that read files, and that can be created again."""
    files = spark.read.parquet(path)
    files.createOrReplaceTempView("files")
    late = "WITH late AS (SELECT * FROM files WHERE at > (SELECT avg(at) FROM files)) "
    return [
        files,
        files.where("region = 3").withColumn("twice", F.col("at") * 2),
        files.join(files.groupBy("region").agg(F.sum("at")), "region"),
        spark.sql(late + "SELECT * FROM late JOIN late AS again USING (region)"),
        files.select(F.transform(F.array("at"), lambda at: at + 1)[0].alias("at")),
        files.select(F.udf(lambda at: at + 1, "long")("at").alias("at")),
    ]


def numbers(spark, path):
    return [number_of_frame(frame, SumWave()) for frame in jobs(spark, path)]


def main(path):
    print(numbers(session(SparkSession.builder.master("local[2]")), path))
