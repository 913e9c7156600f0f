"""Searches that move nodes between blocks."""
