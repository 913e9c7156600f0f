"""Devices: platforms, clusters, networks, unequal devices, rooflines."""
