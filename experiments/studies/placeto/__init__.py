"""Tables of learned placement."""
