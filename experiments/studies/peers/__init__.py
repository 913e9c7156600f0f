"""The methods of this project beside those of other packages, on the same questions for the same time."""
