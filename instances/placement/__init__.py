"""Placement: nodes on devices without an order of blocks."""
