"""Minimum cuts around blocks, and what they say below a known bottleneck."""
