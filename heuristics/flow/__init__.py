"""Search for placements of layers whose flow is large: stages in a row, any intervals, pipelines side by side."""
