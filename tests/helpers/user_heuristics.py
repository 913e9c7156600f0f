"""Heuristics of a caller: one that is sound, and some that are not."""

SOUND = '''
import numpy as np

from heuristics.orders.orders import kahn
from heuristics.orders.slicing import slice_order

LARGEST = 1.0


def mine(instance, rng, limits=None):
    """A slicing of a random order."""
    return slice_order(instance, kahn(instance.graph, LARGEST * rng.random(instance.graph.n)))
'''

UNSOUND = '''
import os
import time

import numpy as np

from heuristics import HEURISTICS
from instances import Partition

CALLS = []


def broken(instance, rng, limits=None):
    raise RuntimeError("this one is broken\\nin two lines")


def nonsense(instance, rng, limits=None):
    return 7


def cheat(instance, rng, limits=None):
    """One block; it says that it costs nothing."""
    found = Partition(instance, np.zeros(instance.graph.n, dtype=int))
    found.__dict__["bottleneck"] = 0.0
    return found


def backwards(instance, rng, limits=None):
    found = Partition(instance, np.zeros(instance.graph.n, dtype=int))
    object.__setattr__(found, "block", np.arange(instance.graph.n)[::-1] % 2)
    return found


def deadly(instance, rng, limits=None):
    os._exit(3)


def leaves(instance, rng, limits=None):
    raise SystemExit(0)


def prints(instance, rng, limits=None):
    print('{"block": [], "order": [], "seconds": 0, "cpu_seconds": 0}')
    os.read(0, 10)
    return HEURISTICS["kahn"].run(instance, rng)


def endless(instance, rng, limits=None):
    while True:
        time.sleep(0.01)


def late(instance, rng, limits=None):
    time.sleep(0.3)
    return HEURISTICS["kahn"].run(instance, rng)


def moody(instance, rng, limits=None):
    CALLS.append(1)
    return Partition(instance, (np.arange(instance.graph.n) >= len(CALLS)).astype(int))
'''
