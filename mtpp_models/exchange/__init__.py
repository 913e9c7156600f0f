"""Models for colleagues: written to files, built for rows of their own, and solutions read back as partitions."""
