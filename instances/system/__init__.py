"""Operating system: locks, limits, signals, processes."""
