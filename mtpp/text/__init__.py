"""Numbers, units and tables as text."""
