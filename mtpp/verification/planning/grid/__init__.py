"""Independent verification of training plans with degrees of parallelism."""
