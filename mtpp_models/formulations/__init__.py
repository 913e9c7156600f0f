"""Models as published, one a file, and their stronger forms."""
