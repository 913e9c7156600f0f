"""Default rules of runtimes compared with proved optima of serving and with measurements of users."""
