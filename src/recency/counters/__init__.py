"""Counts over the latest part of a stream in time order, with bounds that are certain."""
