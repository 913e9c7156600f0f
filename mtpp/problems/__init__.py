"""Problems: one record each, with all that a problem has of its own, and what follows from it for all of them."""
