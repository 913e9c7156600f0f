"""Options, files and errors that all verbs share."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import wraps
from itertools import combinations
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import typer
from typer.models import ParameterInfo

from instances import InputError, Instance, Partition, Result
from instances.errors import WordError, assuming, printable, said
from instances.json_files import check_writable, write_json
from instances.results import A, Q, Question
from mtpp.cli import options
from mtpp.cli.options import option_of
from mtpp.questions.files import as_partition
from mtpp.questions.words import PAIRS, PANELS, Word, checked, types_of, words_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Messages on stderr: one line each, whatever the names in it hold.


def complain(message: str, code: int) -> int:
    """Print one line on stderr, and return the exit code."""
    print(f"mtpp: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code


# Files that the verbs read and write; what cannot be written is refused before long work begins.


_PICTURES = (".png", ".svg", ".pdf")
# Options whose files are written.
_WRITTEN = ("out", "plot", "plot_progress", "export", "trace")


@dataclass(frozen=True)
class Files:
    """Options that say where an answer is written and drawn."""

    out: options.Out = None
    plot: options.Plot = None

    def check(self, *others: Path | None) -> None:
        """Check that these files and `others` can be written, before anything is changed.

        Raises
        ------
        InputError
            If the picture has another suffix than .png, .svg and .pdf, or something that is no regular file is there.
        OSError
            If a file cannot be written.
        """
        if self.plot is not None and self.plot.suffix not in _PICTURES:
            raise InputError(f"--plot {self.plot}: a picture is written as one of {', '.join(_PICTURES)}.")
        for path in (self.out, self.plot, *others):
            if path is not None:
                check_writable(path)
                existed = path.exists()
                with path.open("ab"):
                    pass
                if not existed:
                    os.unlink(os.path.realpath(path))  # a symbolic link stays

    def of(self, instance: Question, instances: Sequence[Question]) -> Files:
        """The files for one of several instances, with names that tell them apart."""
        out, plot = (None if path is None else file_for(path, instance, instances) for path in (self.out, self.plot))
        return Files(out, plot)

    def write(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Write a JSON document if a file was asked for."""
        if self.out is not None:
            write_json(self.out, document())

    def draw(self, answer: Result[Q, A], figure: Callable[[Result[Q, A]], Figure] = Result.plot) -> None:
        """Draw an answer if a picture was asked for."""
        if self.plot is None:
            return
        if answer.answer is None:
            print(f"{answer.instance.label}: there is no partition to draw; give one with --start.", file=sys.stderr)
            return
        from mtpp.plots.style import save_figure

        save_figure(figure(answer), self.plot)


@dataclass(frozen=True)
class PlanFiles(Files):
    """Options that say where a plan is written, drawn and exported."""

    export: Annotated[
        Path | None,
        options.of_files(
            basic=False,
            metavar="FILE",
            help="Order for torch.distributed.pipelining (.csv), Perfetto trace (.json), settings of --for, or, "
            "unsolved, the model of a planner milp… (.lp, .mps) with its names (.names.json).",
        ),
    ] = None


def check_apart(options: Mapping[str, Any]) -> None:
    """Refuse to write one file twice, or over a file or the manifest of stages that is read; `options` are all options.

    Raises
    ------
    WordError
        If two of them are the same file.
    """
    written = {name: options[name] for name in _WRITTEN if options.get(name) is not None}
    if not written:
        return
    for (name, path), (other, target) in combinations(written.items(), 2):
        if _same(path, target):
            raise WordError(name, path, f"{said(other, target)} is the same file; give another name.")
    from mtpp.stages.manifest import MANIFEST

    read = [value if isinstance(value, list) else [value] for name, value in options.items() if name not in _WRITTEN]
    for value in (value for values in read for value in values if isinstance(value, str | PathLike)):
        file = os.path.join(value, MANIFEST) if os.path.isdir(value) else value
        for name, path in written.items():
            if os.path.isfile(file) and _same(path, file):
                raise WordError(name, path, "this is a file to read; give another name.")


def _same(path: str | PathLike[str], other: str | PathLike[str]) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def file_for(path: Path, instance: Question, instances: Sequence[Question]) -> Path:
    """The file of one of several instances: its name gets ``-kK`` or a number."""
    mark = f"k{instance.k}" if isinstance(instance, Instance) else instances.index(instance) + 1
    return path.with_name(f"{path.stem}-{mark}{path.suffix}") if len(instances) > 1 else path


def read_starts(
    start: Partition | Result | str | PathLike[str] | None, instances: Sequence[Instance]
) -> list[Partition | None]:
    """The starting partition for each instance, from the option.

    Raises
    ------
    InputError
        If the file does not answer one of the questions.
    """
    return [as_partition(start, instance) for instance in instances]


# Verbs from functions whose parameters are words, in a `TypedDict` or a dataclass, or options of their own.


class Without(frozenset[str]):
    """Keyword arguments that a verb does not offer, as in ``Annotated[ReadingWords, Without({"level"})]``."""


def command(verb: Callable[..., int]) -> Callable[..., int]:
    """Decorate a verb whose parameters are records: each member becomes an option.

    Parameters
    ----------
    verb : callable
        Its parameters are annotated for typer, dataclasses with such fields, or typed dicts of keyword arguments.

    Returns
    -------
    callable
        Function whose parameters are the options, in the order of the help.
    """

    @wraps(verb)
    def run(*, context: typer.Context | None = None, **options: Any) -> int:
        check_apart(options)
        sources = {} if context is None else {name: context.get_parameter_source(name) for name in options}
        with assuming([name for name, source in sources.items() if source is not None and source.name == "DEFAULT"]):
            return _called(verb, options)

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = sorted(_options(verb), key=_panel)
    run.__signature__ = inspect.Signature([context, *parameters, *_help(parameters)])  # type: ignore[attr-defined]
    return run


def _help(parameters: Sequence[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """The options --help, which shows basic options only, and --help-all."""
    basic = [option.name for option in parameters if getattr(_declared(option), "basic", True)]

    def show(context: typer.Context, option: typer.CallbackParam, value: bool) -> None:
        if not value or context.resilient_parsing:
            return
        verb = copy(context.command)
        if option.name == "help":
            verb.params = [option for option in verb.params if option.name in (*basic, "help", "help_all")]
        print(verb.get_help(context))
        raise typer.Exit

    more = len(parameters) - len(basic)
    flags = {
        "help": (("--help", "-h"), "Show the basic options and leave."),
        "help_all": (("--help-all",), f"Show all options, {more} more, and leave."),
    }
    for name, (spellings, text) in flags.items():
        option = options.of_output(*spellings, help=text, is_eager=True, expose_value=False, callback=show)
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(name, keyword, default=False, annotation=Annotated[bool, option])


def _declared(option: inspect.Parameter) -> ParameterInfo:
    """The typer record of an option or an argument."""
    marks = getattr(option.annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, ParameterInfo)), ParameterInfo())


def _panel(option: inspect.Parameter) -> int:
    """Place of an option's panel in the help; -1, first, for an argument."""
    panel = _declared(option).rich_help_panel
    return PANELS.index(panel) if panel in PANELS else -1


def _options(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter, record, left_out in _parameters(taker):
        if record is None:
            yield _in_text(parameter)
        elif is_typeddict(record):
            yield from (
                _option(name, hint, word)
                for name, (hint, word) in words_of(record).items()
                if name not in left_out and not word.only_python
            )
        else:
            yield from (option for option in _options(record) if option.name not in left_out)


def _called(taker: Callable[..., Any], options: dict[str, Any]) -> Any:
    arguments = {}
    for parameter, record, left_out in _parameters(taker):
        if record is None:
            if parameter.name in options:
                arguments[parameter.name] = _value(parameter.name, options[parameter.name], _kind_of(parameter))
        elif is_typeddict(record):
            hints = {name: hint for name, (hint, _) in words_of(record).items() if name not in left_out}
            values = {name: _value(name, options[name], hint) for name, hint in hints.items() if name in options}
            arguments[parameter.name] = checked(record, values)
        else:
            arguments[parameter.name] = _called(record, {name: options[name] for name in options.keys() - left_out})
    return taker(**arguments)


def _parameters(taker: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any, frozenset[str]]]:
    """Each parameter of a verb, its typed dict or dataclass (None for a plain one), and the members left out."""
    hints = get_type_hints(taker, include_extras=True)
    for name, parameter in inspect.signature(taker).parameters.items():
        hint = hints[name]
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        option = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        yield option, kind if is_typeddict(kind) or is_dataclass(kind) else None, _mark(hint, Without)


def _mark(hint: Any, kind: type[frozenset[str]]) -> frozenset[str]:
    """The set of this type in an annotation's metadata; empty without one."""
    return next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, kind)), kind())


def _option(name: str, hint: Any, word: Word) -> inspect.Parameter:
    """A keyword argument as an option of the command line."""
    kind = _text_type(hint)
    flag = option_of(name)
    option = options.of_panel(
        word.panel,
        f"{flag}/--no-{name}" if kind is bool and word.default else flag,
        metavar=word.metavar or ("N" if types_of(hint) == {int} else None),
        help=word.help,
        basic=word.basic,
    )
    optional = kind if word.default is not None else kind | None
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=word.default, annotation=Annotated[optional, option])


def _text_type(hint: Any) -> Any:
    """The type that typer parses for a keyword argument: texts for numbers and quantities, which are parsed later."""
    kinds = types_of(hint)
    if PathLike in kinds:
        return Path
    if Mapping in kinds:
        return list[str]
    return str if kinds & {str, int, float} else kinds.pop()


def _kind_of(parameter: inspect.Parameter) -> Any:
    """The type of an option, without typer's metadata."""
    hint = parameter.annotation
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _in_text(parameter: inspect.Parameter) -> inspect.Parameter:
    """The option with text in place of a number, so that errors of parsing have this project's form."""
    kind = _kind_of(parameter)
    if not types_of(kind) & {int, float}:
        return parameter
    text = str | None if parameter.default is None else str
    return parameter.replace(annotation=Annotated[text, *get_args(parameter.annotation)[1:]])


def _value(name: str, text: Any, hint: Any) -> Any:
    """The value of an option, parsed from its text."""
    if name in PAIRS and text is not None:
        return PAIRS[name](text) or None
    kind, *others = types_of(hint)
    if not isinstance(text, str) or others or kind not in (int, float):
        return text
    if text == "none" and NoneType in get_args(hint):
        return None
    try:
        return kind(text)
    except ValueError:
        raise WordError(name, text, f"give a {'whole ' if kind is int else ''}number.") from None
