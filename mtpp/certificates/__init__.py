"""Certificates: making, reading back, and running their solvers again."""
