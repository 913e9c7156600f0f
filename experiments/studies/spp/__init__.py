"""Figures and tables of pipelined training."""
