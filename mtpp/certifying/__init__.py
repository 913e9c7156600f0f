"""Certification: searches and bounds under one time budget, and explanations of an answer."""
