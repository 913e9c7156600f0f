"""Partitioning: one question, one answer, and what it costs."""
