"""Check of flows with independent code: the flow from its definition, bounds by weights and enumeration."""
