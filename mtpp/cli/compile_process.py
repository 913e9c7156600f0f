"""Process that compiles the bounds of partitions, beside a first `mtpp certify` that searches; that ends it."""

from __future__ import annotations

import os

from instances.system.processes import processors, run_beside
from mtpp.cli.warm_up import BOUNDS

# Of what is needed later, beside what is waited for.
_NICENESS = 5


def main() -> None:
    """Compile in all processors but that of the command."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with run_beside(BOUNDS, processors() - 2) as (own, others):
        for _ in own:
            pass
        for process in others:
            process.join()


if __name__ == "__main__":
    main()
