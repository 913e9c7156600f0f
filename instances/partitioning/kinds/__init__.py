"""Partitions over kinds of devices: questions, answers and their files."""
