"""Models and bounds of pipelined training."""
