"""Verification of certificates by independent code, which shares only records of graph and platform."""
