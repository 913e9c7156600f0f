"""Jobs as bytes for other processes: graphs and files of callers stay out of them, and each process gets one once.

In their place a job holds their hashes. A process that does not have one says so, and the job comes again with it; so
nothing has to be known of who has what, nor does it get lost with a worker.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakKeyDictionary

from instances import ComputationGraph, Instance
from mtpp.runs.job import Job
from mtpp.runs.log import Run
from mtpp.runs.own_methods import OwnMethod

__all__ = ["Fault", "Missing", "Parcel", "pack", "work"]

#: What many jobs share.
Heavy = ComputationGraph | OwnMethod

#: Graphs and files that a process keeps.
_MOST = 64
#: Arguments of an instance; what it has computed stays at home.
_ASKED = tuple(field.name for field in fields(Instance))


@dataclass(frozen=True)
class Parcel:
    """A job with what it starts from."""

    job: bytes
    heavy: dict[str, Heavy]  # graphs and methods that the job names by their hashes

    def luggage(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Some of these, to be sent along."""
        return {name: pickle.dumps(self.heavy[name]) for name in hashes}


@dataclass(frozen=True)
class Missing:
    """Outcome of a job that names something which is not here."""


@dataclass(frozen=True)
class Fault:
    """Outcome of a job that could not be begun."""

    reason: str


def pack(job: Job, start: Sequence[Run]) -> Parcel:
    """A job and the runs that it starts from as bytes.

    Raises
    ------
    Exception
        If they cannot be pickled.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump((job, start))
    return Parcel(stream.getvalue(), pickler.heavy)


def work(parcel: bytes, luggage: dict[str, bytes]) -> Run | Missing | Fault:
    """Make a run in the process that was asked to."""
    try:
        for name, data in luggage.items():
            _KEPT[name] = pickle.loads(data)
        try:
            job, start = _Unpickler(io.BytesIO(parcel)).load()
        except _MissingError:
            return Missing()
        finally:
            while len(_KEPT) > _MOST:
                _KEPT.popitem(last=False)
        refusal = job.refusal()
    except Exception as error:
        return Fault(f"{type(error).__name__}: {error}")
    if refusal is not None:
        return Fault(refusal)
    run: Run = job.run(start)
    return run


_KEPT: OrderedDict[str, Heavy] = OrderedDict()
_HASHES: WeakKeyDictionary[Heavy, str] = WeakKeyDictionary()


class _MissingError(Exception):
    """An object with this hash was never sent to this process, or was dropped."""


class _Pickler(pickle.Pickler):
    """Writes graphs and methods as their hashes, and an instance as the arguments that it was made from."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.heavy: dict[str, Heavy] = {}

    def persistent_id(self, thing: Any) -> str | None:
        if type(thing) not in (ComputationGraph, OwnMethod):
            return None
        name = _hash(thing)
        self.heavy[name] = thing
        return name

    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is not Instance:
            return NotImplemented
        return _instance, tuple(getattr(thing, name) for name in _ASKED)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Heavy:
        if name not in _KEPT:
            raise _MissingError(name)
        _KEPT.move_to_end(name)
        return _KEPT[name]


def _instance(*values: Any) -> Instance:
    return Instance(**dict(zip(_ASKED, values, strict=True)))


def _hash(thing: Heavy) -> str:
    """Hash of all fields of a graph, names included although no cost depends on them; of a method that of its code."""
    if thing not in _HASHES:
        content = {field.name: getattr(thing, field.name) for field in fields(thing) if field.name != "call"}
        _HASHES[thing] = hashlib.sha256(pickle.dumps(content)).hexdigest()
    return _HASHES[thing]
