"""Independent verification of training plans."""
