"""Independent verification of placements."""
