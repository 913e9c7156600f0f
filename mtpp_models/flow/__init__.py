"""Bounds on flows, and the largest flow of small questions."""
