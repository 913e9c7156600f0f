"""Studies, one paper a folder."""
