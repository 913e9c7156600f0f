"""Published numbers of the three papers beside those measured here, with a verdict and its reason for each."""
