"""Second opinion on certificates of partitions."""
