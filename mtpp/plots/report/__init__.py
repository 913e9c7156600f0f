"""Answers as one HTML page that needs no network and runs no script."""
