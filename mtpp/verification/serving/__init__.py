"""Independent verification of serving fronts."""
