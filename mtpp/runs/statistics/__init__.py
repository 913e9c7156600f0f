"""Means, intervals, paired tests and profiles over graphs that may share a network."""
