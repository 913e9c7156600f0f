"""Runs of studies: jobs, the places where they run, and their log."""
