"""Bounds on training plans in a grid."""

from mtpp_models.planning.grid.bounds import COVERED, grid_bounds

__all__ = ["COVERED", "grid_bounds"]
