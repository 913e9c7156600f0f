"""Searches for the layers that each device holds, so that many requests pass."""
