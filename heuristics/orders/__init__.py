"""Searches over topological orders, and how an order is cut."""
