"""Exact optima by dynamic programming over ideals."""
