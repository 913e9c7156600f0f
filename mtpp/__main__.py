"""The program ``mtpp``, also ``python -m mtpp``: this package is looked at first, before a wrong one is imported."""

import sys

from experiments.__main__ import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
