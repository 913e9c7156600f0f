"""Bounds for partitions over kinds of devices."""
