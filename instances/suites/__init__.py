"""Lists of graphs to compare methods on: frozen ones by name, random ones of any length, and folders of files."""

from instances.suites.named import DATA_VARIABLE, SUITES, find_suite, is_suite
from instances.suites.suite import Entry, LeftOutError, Suite

__all__ = ["DATA_VARIABLE", "SUITES", "Entry", "LeftOutError", "Suite", "find_suite", "is_suite"]
