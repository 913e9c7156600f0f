"""Exchange of models: written to files, built for additional rows, and solutions read back as partitions."""
