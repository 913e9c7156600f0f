"""Lower bounds and exact optima of placements, whatever the order of nodes and transfers."""
