"""Check of partitions over kinds of devices."""
