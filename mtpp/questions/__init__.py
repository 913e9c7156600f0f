"""Questions: the words of Python and of the command line, and the problem that they state."""
