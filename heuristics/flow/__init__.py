"""Searches for layers of devices that let many requests pass."""
