"""Certificates: writing them, reading solutions of other programs back, and running methods again."""
