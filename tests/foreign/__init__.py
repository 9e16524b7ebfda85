"""Sketches of another package: they know :mod:`recency.extending` and nothing else."""
