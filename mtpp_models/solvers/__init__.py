"""Solvers by name, and the code that runs them."""
