"""Solvers by name, and how they are driven."""
