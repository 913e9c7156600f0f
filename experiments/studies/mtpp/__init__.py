"""Ratio tables of partitioning."""
