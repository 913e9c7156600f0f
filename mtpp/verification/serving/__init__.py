"""Second opinion on serving fronts."""
