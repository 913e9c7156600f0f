"""The problem of flow: devices that hold intervals of a decoder's layers, and how many requests pass them."""
