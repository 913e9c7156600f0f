"""Predicted steps of training beside those that others have published."""
