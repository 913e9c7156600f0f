"""Certification: searches and bounds under one time budget, and what they say of an answer."""
