"""Lazy import of Pyomo, at the first model that is built, as searches and other bounds do not need it."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from instances.deadline import CLOCK

if TYPE_CHECKING:
    import pyomo.environ as pyo
    from pyomo.core.expr import NumericExpression
else:
    NumericExpression = Any

    class _Late:
        def __getattr__(self, name: str) -> object:
            value = getattr(load_pyomo(), name)
            setattr(self, name, value)
            return value

    pyo = _Late()


#: What Pyomo imports where SciPy is there before it, half a second, and needs for no linear model.
_UNUSED = ("scipy.stats", "scipy.integrate", "scipy.spatial")


def load_pyomo() -> Any:
    """Import Pyomo; the clock of time limits stands still meanwhile."""
    if "pyomo.environ" in sys.modules:
        return sys.modules["pyomo.environ"]
    CLOCK.halt()
    empty = {name: ModuleType(name) for name in _UNUSED if name not in sys.modules}
    sys.modules.update(empty)
    try:
        return import_module("pyomo.environ")
    finally:
        for name in empty:
            del sys.modules[name]
        CLOCK.resume()


def standard_form(model: pyo.ConcreteModel) -> Any:
    """Pyomo's standard form of a linear model; None if a row without variables is violated."""
    from pyomo.common.errors import InfeasibleConstraintException
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    try:
        return LinearStandardFormCompiler().write(model, mixed_form=True)
    except InfeasibleConstraintException:
        return None
