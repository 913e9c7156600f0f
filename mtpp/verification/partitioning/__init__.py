"""Independent verification of certificates of partitions."""
