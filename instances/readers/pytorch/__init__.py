"""Graphs and stages of PyTorch modules and exported programs."""
