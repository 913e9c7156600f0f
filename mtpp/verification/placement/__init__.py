"""Second opinion on placements."""
