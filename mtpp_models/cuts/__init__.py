"""Minimum cuts around blocks, and their consequences below a known bottleneck."""
