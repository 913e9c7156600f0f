"""Default rules of runtimes against proved optima of serving, and what users measured."""
