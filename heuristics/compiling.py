"""How the kernels of local search are compiled."""

from numba import njit

__all__ = ["lean"]

#: For kernels that allocate nothing: numba then need not count references to arrays, which takes half of a move.
lean = njit(cache=True, _nrt=False)  # type: ignore[call-overload]  # the option is not in its stubs
