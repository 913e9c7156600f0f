"""Second opinion on training plans."""
