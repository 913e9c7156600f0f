"""Certificate files: the bounds that they claim."""
