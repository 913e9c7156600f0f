"""Questions: keyword arguments of Python, options of the command line, and the problem that they state."""
