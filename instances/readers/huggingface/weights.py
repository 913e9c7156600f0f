"""Weights beside a configuration: the choice of files, and the stored bytes of each part of a network."""

from __future__ import annotations

import glob
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from instances.architectures.transformers import Encoder
from instances.errors import InputError, said
from instances.graph.display import figures
from instances.graph.graph import ComputationGraph
from instances.json_files import check_readable, read_json
from instances.readers.huggingface.headers import Header, StoredTensor, read_header
from instances.readers.huggingface.record import Decoder

# Which files of a folder are the weights of its model.


GGUF = ".gguf"
_SUFFIXES = (".safetensors", GGUF)
_FORMS, _INDICES = tuple(f"*{suffix}" for suffix in _SUFFIXES), "*.safetensors.index*.json"
#: Files of PyTorch, which count where no others do.
_PICKLED, _PICKLED_INDICES = ("pytorch_model*.bin", "consolidated*.pth", "adapter_model*.bin"), "*.bin.index*.json"
#: What transformers takes, the first first: a file, an index, files numbered as those of an index.
_RANKS = {
    name: rank
    for rank, name in enumerate(
        f"{whole}{rest}"
        for whole in ("model.safetensors", "pytorch_model.bin")
        for rest in ("", ".index.json", " parts")
    )
}
#: Files with a slice of each matrix, as Meta writes them, and all of each vector.
_SLICE = re.compile(r"consolidated\.([0-9]{2,3})\.pth")
_PART = re.compile(r"(?P<stem>.*)-(?P<number>[0-9]{1,6})-of-(?P<count>[0-9]{1,6})(?P<rest>.*)")
_MOST_FILES = 2_000
_SHOWN = 5
#: Files that hold weights in forms that are not read, and pieces of a file that was cut between bytes.
_UNREAD = ("model*.bin", "*.pth", "*.pt", "*.ckpt", "*.h5", "*.msgpack", "*.npz")
_PIECES = ("*.gguf.part*", "*.gguf-split-*", "*.gguf-part-*", "*.safetensors.part*")
_ADAPTER, _TOWERS, _OTHER = "an adapter", "a file of towers alone", "no weights of a model"


@dataclass(frozen=True)
class _Weights:
    """One set of weight files: its parts, missing parts, and its index."""

    name: str  # name by which a user chooses them
    files: tuple[Path, ...]
    missing: tuple[Path, ...] = ()
    index: Path | None = None
    holders: Mapping[str, str] | None = None  # file of each tensor, as the index says
    rank: int | None = None  # place in the order in which transformers prefers sets; None if it takes none
    sliced: bool = False  # whether each file has a slice of each matrix

    @cached_property
    def headers(self) -> tuple[Header, ...]:
        """The header of each file."""
        return tuple(map(read_header, self.files))

    @property
    def bytes(self) -> int:
        """Total bytes of the tensors."""
        return sum(tensor.bytes for header in self.headers for tensor in header.tensors if not tensor.shared)

    @cached_property
    def purpose(self) -> str:
        """Text on the purpose of files that are not the weights of a model; empty for weights."""
        first = self.files[0].name.lower()
        if "mmproj" in first:
            return _TOWERS
        values = self.headers[0].values
        kind, architecture = values.get("general.type"), values.get("general.architecture")
        tensors = [tensor.name for header in self.headers for tensor in header.tensors]
        if kind == "mmproj" or architecture == "clip":
            return _TOWERS
        adapts = first.startswith("adapter") or kind == "adapter" or architecture == "controlvector"
        if adapts or (tensors and all("lora_" in name for name in tensors)):
            return _ADAPTER
        return _OTHER if not tensors or kind in ("imatrix", "vocab") or architecture == "imatrix" else ""

    def checked(self) -> list[StoredTensor]:
        """The tensors of all parts; an `InputError` if one is missing, there twice, or not where the index says."""
        if self.missing:
            raise InputError(
                f"{self.missing[0]}: this part of the weights is missing; get it, or move the other parts elsewhere."
            )
        if self.sliced:
            return self._joined()
        holders: dict[str, Path] = {}
        for file, header in zip(self.files, self.headers, strict=True):
            _check_number(file, header)
            for tensor in header.tensors:
                if tensor.name in holders:
                    raise InputError(
                        f"{file}: tensor {tensor.name} is in {holders[tensor.name].name}, too; get the weights anew, "
                        "or move one file elsewhere."
                    )
                holders[tensor.name] = file
        for name, holder in (self.holders or {}).items():
            if self.index is not None and holders.get(name) != self.index.parent / holder:
                raise InputError(f"{self.index}: tensor {name} is not in {holder}; get index and weights anew.")
        return [tensor for header in self.headers for tensor in header.tensors]

    def _joined(self) -> list[StoredTensor]:
        """The tensors of all slices joined (matrices summed, vectors taken from one); all must be complete."""
        first, *others = ({tensor.name: tensor for tensor in header.tensors} for header in self.headers)
        for file, other in zip(self.files[1:], others, strict=True):
            if lacking := sorted(first.keys() ^ other.keys()):
                raise InputError(f"{file}: not both it and {self.files[0].name} have {lacking[0]}; get both anew.")
            for name, tensor in other.items():
                joined = first[name]
                if not tensor.vector:
                    first[name] = joined._replace(
                        elements=joined.elements + tensor.elements, bytes=joined.bytes + tensor.bytes
                    )
        return [*first.values()]


class Stored(NamedTuple):
    """Tensors of the weights of a model, and sentences about doubts."""

    tensors: list[StoredTensor]
    source: str  # the file, or what all of them are called
    doubts: list[str]
    values: Mapping[str, Any] = {}  # metadata of a GGUF file, or of its first part

    @property
    def is_gguf(self) -> bool:
        """Whether the weights are in GGUF files."""
        return self.source.lower().endswith(GGUF)


def only_gguf(folder: Path) -> Path | None:
    """The GGUF file of a model in a folder, or the first of its parts; None if there are several models, or none."""
    names = {without_part(file): file for file in sorted(folder.glob("*"), reverse=True) if file.suffix.lower() == GGUF}
    models = [file for name, file in names.items() if "mmproj" not in name.lower()]
    return models[0] if len(models) == 1 else None


def without_part(file: Path) -> str:
    """The name of a file without its suffix and without the number of its part."""
    match = _PART.fullmatch(file.stem)
    return match["stem"] if match else file.stem


def stored_weights(folder: Path, choice: str | Path | None) -> Stored:
    """The weights in a model's folder; no tensors if none can be read.

    Parameters
    ----------
    choice : str or path, optional
        A file or folder of weights, in the folder or elsewhere, or an index.

    Raises
    ------
    InputError
        If several sets of weights could be meant, a part is missing, or a file is damaged.
    """
    if choice is not None:
        path = folder / choice if (folder / choice).exists() else Path(choice)
        if not path.is_dir():
            check_readable(path)
        folder = path if path.is_dir() else path.parent
    sets = _sets(folder)
    if (choice is not None and path.is_file()) or not any(weights.files and not weights.purpose for weights in sets):
        sets += _sets(folder, _PICKLED if choice is None else (*_PICKLED, *_file_pattern(path)), _PICKLED_INDICES)
    if choice is not None:
        sets = [weights for weights in sets if path in (folder, weights.index, *weights.files)]
        if not any(weights.files for weights in sets):
            raise InputError(f"{path}: there are no weights in it; give a *.safetensors, *.gguf, *.bin or *.pth file.")
    present = [weights for weights in sets if weights.files]
    models = [weights for weights in present if not weights.purpose]
    if choice is not None and not models:
        raise InputError(f"{path}: this is {present[0].purpose}; give the weights of the model.")
    if not models:
        return Stored([], "", [*_named(present), *_unread(folder, sets)])
    taken, doubts = _taken(folder, models)
    if choice is None:
        doubts += _named(weights for weights in present if weights.purpose == _ADAPTER)
    tensors = taken.checked()
    source = str(taken.files[0] if len(taken.files) == 1 else taken.index or folder / taken.name)
    if taken.files[0].suffix.lower() == GGUF:
        source = str(taken.files[0])
        beside = sets if choice is None else [weights for weights in _sets(folder) if "mmproj" in weights.name.lower()]
        towers = [weights for weights in beside if weights.files and weights.purpose == _TOWERS]
        if towers:
            largest = max(towers, key=lambda weights: weights.bytes)
            tensors += largest.checked()
            if len(towers) > 1:
                doubts.append(f"of {len(towers)} files of towers the largest counts, {largest.name}.")
    return Stored(tensors, source, doubts, taken.headers[0].values)


def _taken(folder: Path, models: Sequence[_Weights]) -> tuple[_Weights, list[str]]:
    """The set of weights to use, by the precedence of transformers, and a sentence about the other sets.

    An `InputError` if no set has precedence, or another one is larger.
    """
    if len(models) == 1:
        return models[0], []
    ranked = [weights for weights in models if weights.rank is not None]
    taken = min(ranked, key=lambda weights: weights.rank or 0, default=None)
    others = [weights for weights in models if weights is not taken]
    listed = ", ".join(f"{weights.name} ({figures(weights.bytes, 'bytes')})" for weights in others[:_SHOWN])
    listed += ", …" * (len(others) > _SHOWN)
    if taken is None or any(weights.bytes > taken.bytes for weights in others):
        whole = [weights for weights in (taken, *others) if weights and not weights.missing] or others
        first = "" if taken is None else f"{taken.name} ({figures(taken.bytes, 'bytes')}), "
        raise InputError(
            f"{folder}: {len(models)} sets of weights lie in it, {first}{listed}; choose one, as in "
            f"{said('weights', whole[0].name)}."
        )
    instead = said("weights", others[0].name)
    return taken, [f"{taken.name} counts, as transformers takes it, and not {listed}; {instead} takes that."]


def _named(others: Iterable[_Weights]) -> list[str]:
    """Sentences about weight files in the folder that are not the weights of a model."""
    why = {_ADAPTER: "an adapter, which does not count; merge it into the weights to count it"}
    return [f"{weights.name} is {why.get(weights.purpose, weights.purpose)}." for weights in others]


def _file_pattern(path: Path) -> tuple[str, ...]:
    """Pattern that matches a PyTorch file by its name; an empty tuple for other files."""
    return (glob.escape(path.name),) if path.suffix.lower() in (".bin", ".pth", ".pt") else ()


def _sets(folder: Path, forms: Sequence[str] = _FORMS, indices: str = _INDICES) -> list[_Weights]:
    """The sets of weights of a folder: by an index, by numbered parts, by slices, or single files."""
    beside = sorted(folder.glob("*"))
    files = {file.name: file for form in forms for file in beside if fnmatchcase(file.name.lower(), form.lower())}
    if len(files) > _MOST_FILES:
        raise InputError(f"{folder}: there are {len(files)} files of weights; {_MOST_FILES} are the most that is read.")
    sets, rest = [], dict(files)
    for index in sorted(folder.glob(indices)):
        named = read_json(index).open_members(("weight_map",))["weight_map"].open_members(())
        holders = {name: value.text() for name, value in named.items()}
        if not holders:
            raise InputError(f"{index}: its weight_map names no tensor; get the index anew, or move it elsewhere.")
        wanted = sorted(set(holders.values()))
        inside = {name for name in wanted if name[:1] != "/" and ".." not in Path(name).parts}
        present = tuple(folder / name for name in wanted if name in inside and (folder / name).is_file())
        missing = tuple(path for name in wanted if (path := folder / name) not in present)
        sets.append(_Weights(index.name, present, missing, index, holders, _RANKS.get(index.name)))
        rest = {name: file for name, file in rest.items() if name not in wanted}
    parts: dict[tuple[str, str, str], dict[int, Path]] = defaultdict(dict)
    if slices := {int(match[1]): file for name, file in rest.items() if (match := _SLICE.fullmatch(name))}:
        rest = {name: file for name, file in rest.items() if file not in slices.values()}
        lacking = sorted({*range(max(slices) + 1)} - {*slices})
        missing = tuple(folder / f"consolidated.{number:02}.pth" for number in lacking)
        present = tuple(slices[number] for number in sorted(slices))
        sets.append(_Weights(present[0].name, present, missing, sliced=True))
    for name, file in rest.items():
        if match := _PART.fullmatch(name):
            parts[match["stem"], match["count"], match["rest"]][int(match["number"])] = file
        else:
            sets.append(_Weights(name, (file,), rank=_RANKS.get(name)))
    for (stem, count, rest_of_name), numbered in parts.items():
        if not all(1 <= number <= int(count) <= _MOST_FILES for number in numbered):
            raise InputError(f"{next(iter(numbered.values()))}: its name counts parts wrongly; get the file anew.")
        named_parts = {
            number: folder / f"{stem}-{number:0{len(count)}}-of-{count}{rest_of_name}"
            for number in range(1, int(count) + 1)
        }
        missing = tuple(path for number, path in named_parts.items() if number not in numbered)
        present = tuple(numbered[number] for number in sorted(numbered))
        sets.append(_Weights(present[0].name, present, missing, rank=_RANKS.get(f"{stem}{rest_of_name} parts")))
    return sets


def _unread(folder: Path, sets: Sequence[_Weights]) -> list[str]:
    """Sentences about weights that are not read: other formats, missing parts, folders below."""
    bytes_are = "bytes are those of element_bytes"
    for weights in sets:
        if not weights.files:
            first, count = weights.missing[0].name, len(weights.missing)
            return [f"{weights.name} names {count} files of weights, as {first}, which are not there; {bytes_are}."]
    for form in _PIECES:
        if pieces := sorted(folder.glob(form)):
            whole = re.split(r"[.-](?:part|split)", pieces[0].name)[0]
            return [f"{pieces[0].name} is a piece of a file; join them (cat {whole}?* > {whole}); {bytes_are}."]
    for form in _UNREAD:
        if unread := sorted(folder.glob(form)):
            return [f"{unread[0].name} is not read; convert it to safetensors to count it; {bytes_are}."]
    below = sorted(file for suffix in _SUFFIXES for file in folder.glob(f"*/*{suffix}"))
    if below:
        inner = below[0].relative_to(folder).as_posix()
        return [f"weights lie in {below[0].parent.name}/; {said('weights', inner)} counts them; {bytes_are}."]
    return []


def _check_number(file: Path, header: Header) -> None:
    """Refuse a GGUF file whose header and name state different part numbers."""
    number, count = header.values.get("split.no", 0), header.values.get("split.count", 0)
    match = _PART.fullmatch(file.name)
    stated = (int(match["number"]) - 1, int(match["count"])) if match else (0, 1)
    if count and (number, count) != stated and not (count == 1 and match is None):
        raise InputError(
            f"{file}: it says that it is part {number + 1} of {count}; give it the name that llama-gguf-split gave it, "
            "with all parts beside it."
        )


# What each part of a network takes: a layer, by its number, or what lies before or after the layers.


BEFORE, AFTER = -1, -2
_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|blk)\.([0-9]{1,5})\.")
#: Parts of a multimodal model that are no decoder: towers for pictures and sound, and what joins them to it.
_TOWER = re.compile(
    r"^(?:v|a|mm)\.|(?:^|\.)(?:vision\w*|visual|audio\w*|vit|multi_modal\w*|mm_projector|image\w*|embed_(?:vision|audio))\."
)
#: Layers that draft further tokens.
_DRAFTS = re.compile(r"(?:^|\.)mtp\.")
#: Tensors that some files hold besides parameters.
_BUFFERS = re.compile(
    r"(?:^|[._])inv_freq$|(?:^|\.)(?:rope\.freqs|attn\.bias|attn\.masked_bias|rope_freqs\.weight|attention\.bias|"
    r"rope_factors_(?:long|short)\.weight|rotary_emb\..*|position_ids|act_fn\.(?:beta|eps)|layer_scalar|"
    r"slope_rate|query_decay|key_decay|diagonal_decay)$"
)
#: What is added to scores when experts are chosen: a parameter of some model types, a tensor beside them in others.
_CORRECTIONS = re.compile(r"(?:^|\.)(?:e_score_correction_bias|expert_bias|exp_probs_b(?:\.bias)?)$")
#: Scales of numbers of a narrow type, which no parameter is.
_SCALES = re.compile(r"(?:^|[._])(?:[kqv]|prob|input|output|weight|activation)_(?:scale(?:_inv|_2)?|zero_point)$")
_HEADS = frozenset(("output", "lm_head", "embed_out", "output_projection"))
#: Modules of classifiers, reward models and language models of encoders.
_OWN_HEAD = re.compile(
    r"(?:^|\.)(?:score|classifier|pre_classifier|classification_head|regression_head|value_head|v_head|reward_head|"
    r"qa_outputs|cls|vocab_(?:projector|transform|layer_norm)|(?:generator|discriminator)_\w+|logit_scale)(?:\.|$)"
)
_BEHIND = frozenset(("norm", "output_norm", "project_out"))
#: The least and the most elements of a quantised part for a parameter: conversions drop some rows, and scales count.
_LEAST, _MOST = 0.98, 1.25


@dataclass(frozen=True)
class Parts:
    """Assignment of nodes and tensors to the parts of a network, by their names."""

    layers: int
    stack: str  # path of the layers
    before: str  # the module with the table of words
    after: tuple[str, ...]  # modules after the layers
    tied: bool  # whether the head is the table of words
    headed: bool  # whether there is a head that yields words
    classes: bool  # whether there is a classifier in its place
    decoder: str = ""  # how names of its tensors begin, but for those of heads

    @classmethod
    def of(cls, record: Decoder | Encoder, stored: Stored) -> Parts:
        """The parts of a network whose weights are stored so."""
        modules = record.modules
        sizes = (modules["layers"], modules["before"][0], (*modules["after"],))
        if isinstance(record, Encoder):
            return cls(record.layers, *sizes, tied=False, headed=False, classes=False)
        heads = (record.tied, record.labels is None, bool(record.labels))
        return cls(len(record.layers), *sizes, *heads, decoder=_decoder(modules, stored))

    def of_node(self, name: str) -> int:
        """The part that a node or a parameter of the graph is in."""
        rest = name.removeprefix(f"{self.stack}.")
        if rest != name:
            return int(rest.partition(".")[0])
        return AFTER if name.startswith(tuple(f"{path}." for path in self.after)) or name in self.after else BEFORE

    def of_tensor(self, name: str) -> int | None:
        """The part of a stored tensor; None if it does not belong to the network."""
        if _BUFFERS.search(name) or _DRAFTS.search(name) or self.is_of_tower(name):
            return None
        if match := _LAYER.search(name):
            number = int(match[1])
            return number if number < self.layers else None
        if self.is_of_own_head(name):
            return AFTER if self.classes else None
        if self.is_of_head(name):
            return AFTER if self.headed and not (self.tied and self.is_table(name)) else None
        ends = {path.rpartition(".")[2] for path in self.after}
        modules = name.split(".")
        return BEFORE if "embeddings" in modules or (ends | _BEHIND).isdisjoint(modules) else AFTER

    @staticmethod
    def is_of_own_head(name: str) -> bool:
        """Whether a tensor belongs to a classifier or similar head, or to an encoder's language-model head."""
        return bool(_OWN_HEAD.search(name)) and not _LAYER.search(name)

    @staticmethod
    def is_of_head(name: str) -> bool:
        """Whether a tensor belongs to the language-model head."""
        return not _HEADS.isdisjoint(name.split(".")) and not _LAYER.search(name)

    @classmethod
    def is_table(cls, name: str) -> bool:
        """Whether a tensor is the matrix of the language-model head."""
        return cls.is_of_head(name) and not name.endswith(".bias")

    def is_of_tower(self, name: str) -> bool:
        """Whether a tensor belongs to an encoder of images or sound, or to what joins it to the decoder.

        In GGUF a layer of the decoder begins with `blk.`.
        """
        if name.startswith("blk.") or _BUFFERS.search(name) or _DRAFTS.search(name):
            return False
        if _TOWER.search(name):
            return True
        return not (name.startswith(self.decoder) or self.is_of_head(name) or self.is_of_own_head(name))

    def is_behind(self, name: str) -> bool:
        """Whether a tensor belongs to a layer beyond the last one of the network."""
        match = _LAYER.search(name)
        return not self.is_of_tower(name) and (
            bool(_DRAFTS.search(name)) or (match is not None and int(match[1]) >= self.layers)
        )


def _decoder(modules: Mapping[str, Any], stored: Stored) -> str:
    """The prefix of the names of a decoder's tensors; empty if it is not clear.

    It is the prefix shared by the token embedding and the first layer; in models with images or sound, other tensors
    have other prefixes.
    """
    table, layers = (path.rpartition(".")[2] for path in (modules["before"][0], modules["layers"]))
    names = [tensor.name for tensor in stored.tensors]
    ends = (name.removesuffix(f"{table}.weight") for name in names if f".{name}".endswith(f".{table}.weight"))
    return next((end for end in ends if any(name.startswith(f"{end}{layers}.0.") for name in names)), "")


def as_stored(record: Decoder | Encoder, stored: Stored) -> tuple[Decoder | Encoder, list[str]]:
    """The network as a runtime loads it from these weights, and sentences about doubts.

    llama.cpp loads a stored head even where head and embedding are tied. A decoder without a tensor of its head has no
    head, an encoder without one of its pooler no pooler; a head of other size than that of the class counts by its
    bytes alone.
    """
    names = [tensor.name for tensor in stored.tensors]
    if not names:
        return record, []
    headed = any(map(Parts.is_table, names))
    if isinstance(record, Encoder):
        return replace(record, pooled=record.pooled and any("pooler" in name for name in names)), []
    if record.tied:
        return replace(record, tied=not (stored.is_gguf and headed)), []
    if record.labels is None and not headed:
        return replace(record, labels=0, head_bias=False), ["its weights have no head; it counts without one."]
    if record.labels:
        elements = sum(tensor.elements for tensor in stored.tensors if Parts.is_of_own_head(tensor.name))
        if elements != record.labels * (record.embedding + record.head_bias):
            return replace(record, labels=0, head_bias=False), []
    return record, []


def stored_widths(graph: ComputationGraph, parts: Parts, stored: Stored) -> Callable[[str], float]:
    """Function from a parameter to the mean stored bytes of an element in its part of the network.

    Parameters
    ----------
    graph : ComputationGraph
        Graph in which all parameters have the width `element_bytes`.

    Raises
    ------
    InputError
        If the weights are those of another model.
    """
    sizes = stored_sizes(_elements(graph, parts), parts, stored)
    widths = {part: size / count for part, (size, count) in sizes.items() if count}
    return lambda name: widths.get(parts.of_node(name), widths[BEFORE])


def stored_sizes(elements: dict[int, int], parts: Parts, stored: Stored) -> dict[int, tuple[int, int]]:
    """(stored bytes, number of parameters) of each part of the network.

    Where the tensors before the layers cannot be told from those after them, both count as one part.

    Raises
    ------
    InputError
        If the weights are those of another model.
    """
    by_part: dict[int, list[StoredTensor]] = defaultdict(list)
    for tensor in stored.tensors:
        part = parts.of_tensor(tensor.name)
        if part is not None:
            by_part[part].append(tensor)
    for number in range(parts.layers):
        if number not in by_part:
            raise InputError(
                f"{stored.source}: there is no tensor of layer {number} of {parts.layers}; these are weights of "
                "another model or a part of them: move them elsewhere."
            )
    if not all(_fits(by_part[end], elements[end]) for end in (BEFORE, AFTER)):  # then both in one
        by_part[BEFORE] += by_part.pop(AFTER, [])
        elements[BEFORE] += elements.pop(AFTER, 0)
    for part, count in elements.items():
        if not _fits(by_part[part], count):
            where = f"layer {part}" if part >= 0 else "its ends"
            raise InputError(
                f"{stored.source}: the tensors of {where} have {sum(tensor.elements for tensor in by_part[part])} "
                f"elements, and the configuration asks for {count}; these are weights of another model: move them "
                "elsewhere."
            )
    return {part: (sum(tensor.bytes for tensor in by_part[part]), count) for part, count in elements.items()}


def _elements(graph: ComputationGraph, parts: Parts) -> dict[int, int]:
    """Parameters of each part of a graph."""
    width = int(graph.attributes["dims"]["element_bytes"])
    sizes: dict[int, int] = defaultdict(int)
    for name, size in zip(graph.names, graph.param_bytes.tolist(), strict=True):
        sizes[parts.of_node(name)] += round(size)
    for parameter in graph.parameters:
        sizes[parts.of_node(parameter.name)] += round(parameter.bytes)
    return {part: size // width for part, size in sizes.items()} | {end: sizes[end] // width for end in (BEFORE, AFTER)}


def _fits(stored: Sequence[StoredTensor], count: int) -> bool:
    """Whether tensors, apart from scales of quantisation, can hold exactly `count` parameters."""
    tensors = [tensor for tensor in stored if not _SCALES.search(tensor.name)]
    elements = sum(tensor.elements for tensor in tensors)
    if all(tensor.plain for tensor in tensors):
        corrections = sum(tensor.elements for tensor in tensors if _CORRECTIONS.search(tensor.name))
        return count in (elements, elements - corrections)
    return not all(tensor.whole for tensor in tensors) or _LEAST * count <= elements <= _MOST * count


def with_others(graph: ComputationGraph, parts: Parts, stored: Stored) -> tuple[ComputationGraph, list[str]]:
    """The graph with the bytes of other modules that are loaded, such as towers; and sentences about doubts."""
    towers, heads, doubts = other_sizes(parts, stored)
    param_bytes = graph.param_bytes.copy()
    if towers:
        param_bytes[next(v for v, name in enumerate(graph.names) if name.startswith(parts.before))] += towers
    if heads:
        param_bytes[max(v for v in range(graph.n) if param_bytes[v])] += heads
    return replace(graph, param_bytes=param_bytes), doubts


def other_sizes(parts: Parts, stored: Stored) -> tuple[int, int, list[str]]:
    """Bytes of image or sound towers, bytes of heads that are no part of the graph, and sentences about doubts."""

    def size_of(is_of: Callable[[str], bool]) -> int:
        return sum(tensor.bytes for tensor in stored.tensors if is_of(tensor.name) and not tensor.shared)

    drafts, towers = size_of(parts.is_behind), size_of(parts.is_of_tower)
    heads = 0 if parts.classes else size_of(parts.is_of_own_head)
    if not (parts.classes or parts.headed):  # of an encoder that fills in words
        heads += size_of(parts.is_of_head)
    doubts = [f"{figures(drafts, 'bytes')} of layers behind the last, as of a drafter, are left out."] if drafts else []
    if towers:
        doubts.append(f"{figures(towers, 'bytes')} of towers count as weights of {parts.before}, their work does not.")
    if heads:
        doubts.append(f"{figures(heads, 'bytes')} of its head count as weights behind the layers, their work does not.")
    return towers, heads, doubts
