"""Certificates: written, read back, and their bounds proved again."""
