"""Rows of plans of runs, as small as they can be."""

from __future__ import annotations

__all__ = ["paper_row"]


def paper_row(item: str, more: str) -> str:
    """A plan with one row, on small random graphs in two blocks, for one item of the paper on partitioning."""
    return f"""
format = "mtpp-paper/1"
[[row]]
paper = "mtpp"
items = ["{item}"]
study = "partition"
graphs = "regal"
k = [2]
{more}"""
