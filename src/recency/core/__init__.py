"""Kernels: arrays in, arrays out. Nothing here knows of sketch objects or of Spark."""
