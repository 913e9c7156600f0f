"""Runs of studies: what is done, where, and the log."""
