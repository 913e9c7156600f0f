"""How certificates are made: the ladder, other numbers of blocks, files."""
