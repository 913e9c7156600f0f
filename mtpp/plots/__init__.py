"""Pictures of partitions, plans and placements."""
