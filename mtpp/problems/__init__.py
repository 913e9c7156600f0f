"""Problems: a record of the classes and functions of each, and functions that use these records for all problems."""
