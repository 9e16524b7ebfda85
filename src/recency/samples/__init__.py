"""Sketches that keep a random sample of what came, in any order: counts, sums, quantiles."""
