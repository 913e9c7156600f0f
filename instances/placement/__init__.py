"""Placement: the assignment of nodes to devices, without an order of the devices."""
