"""Numbers of the three papers beside our own, with a verdict and its reason for each."""
