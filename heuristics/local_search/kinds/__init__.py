"""Searches for partitions over kinds of devices."""
