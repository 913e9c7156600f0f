"""The computation graph: its arrays, checks, views, files."""
