"""Check of flows."""
