"""Sketches over Spark DataFrames (``pip install 'recency[spark]'``).

:func:`sketch_df` builds them, one for all rows or one for each group; :func:`sketch_many` builds
several in one scan; :func:`merge_df` rolls up sketches that were stored in a binary column. All
three use the DataFrame API alone. :func:`sketch_rdd` is for those who have an RDD.
"""

from recency.spark import functions
from recency.spark.api import merge_df, on, sketch_df, sketch_many
from recency.spark.functions import register
from recency.spark.rdd import sketch_rdd

__all__ = ["functions", "merge_df", "on", "register", "sketch_df", "sketch_many", "sketch_rdd"]
