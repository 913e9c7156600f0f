"""Bounds by prices of nodes."""
