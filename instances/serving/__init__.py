"""Decoders that are served: their layers, the servers, costs of stages, and deployments."""
