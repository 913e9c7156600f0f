"""Partitioning: the question, the answer, and its cost."""
