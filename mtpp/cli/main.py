"""The command line ``mtpp``: stdout is data, stderr is progress.

Exit codes: 0 done; 1 nothing found within the limits, or a number is false; 2 wrong use or bad input; 3 solver not
available or faulty, or scheduler lost; 4 rests on trusted bounds only; 5 proved impossible; 6 not checked within the
limits; 130 stopped. What is known is printed first; a fault is one line on stderr. `mtpp.cli.exit_codes` says more of
them.

What a verb needs is imported when it runs, so that help is there at once.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from instances.architectures import ARCHITECTURES
from instances.errors import InputError, InputWarning, NothingFitsError, find, nearest, spelling, unknown
from instances.json_files import check_folder
from instances.system.processes import module_beside, processors, terminate_as_interrupt
from mtpp.cli import options
from mtpp.cli.certify import bound, certify, partition
from mtpp.cli.command import command, complain
from mtpp.cli.exit_codes import DONE, FALSE, IMPOSSIBLE, INTERRUPTED, MEANINGS, NO_SOLVER, NOTHING, UNCHECKED, WRONG
from mtpp.cli.options import LISTINGS, option_of, spelled
from mtpp.cli.placement import flow, place, serve
from mtpp.cli.plan import plan, train
from mtpp.cli.printing import Printing
from mtpp.cli.run import run, split
from mtpp.cli.verify import check, explain, export, features, import_graph, report, verify
from mtpp.cli.warm_up import warm_up
from mtpp.questions.partitioning import RelaxationWords
from mtpp.questions.words import SeedWords
from mtpp.text.tables import frame_table, left_aligned, records

# The verbs ``mtpp list`` and ``mtpp versions``: what there is to choose from, and on what an answer rests.


@command
def list_names(
    *,
    what: Annotated[str | None, options.argument(metavar="|".join(LISTINGS))] = None,
    graph: Annotated[
        str | None, options.of_question("--graph", metavar="GRAPH", help="Of models: count them for this graph and -k.")
    ] = None,
    k: Annotated[int | None, options.of_question("-k", metavar="K", help="Number of blocks, with --graph.")] = None,
    stats: Annotated[
        bool,
        options.of_search("--stats", help="With --graph, solve each model: LP, root and final bound."),
    ] = False,
    words: RelaxationWords,
    printing: Printing,
) -> int:
    """List what there is to choose from, with one line about each; without a word, what can be listed.

    Models of a question are listed with their sizes, and with what they prove in --time-limit each:
    mtpp list models --graph squeezenet -k 4 --stats --time-limit 10
    """
    if graph is not None or stats:
        return _list_models(what, graph, k, words, printing, stats=stats)
    rows = [(name,) for name in LISTINGS] if what is None else find(LISTINGS, what, "list")()
    printing.say(left_aligned([row[:1] for row in rows] if printing.quiet else rows))
    printing.document(lambda: [{"name": name, "about": about} for name, *about in rows])
    return DONE


def _list_models(
    what: str | None, graph: str | None, k: int | None, words: RelaxationWords, printing: Printing, *, stats: bool
) -> int:
    """List the models of a question with their sizes."""
    if what != "models":
        raise InputError(f"--graph and --stats: they are for mtpp list models{f', not {what}' if what else ''}.")
    if graph is None:
        raise InputError("--stats: give --graph and -k, the question that the models are of.")
    from mtpp.api.partitioning import catalogue_of

    with printing.working(f"models of {graph}"):
        frame = catalogue_of(graph, k, words, stats=stats)
    printing.say(frame_table(frame.drop(columns=["summary", "reference", "variables", "rows"])))
    printing.document(lambda: records(frame))
    return DONE


@command
def show_versions(*, printing: Printing) -> int:
    """Print the versions of everything that can change an answer."""
    from mtpp.versions import versions

    packages = versions()
    printing.say(left_aligned(list(packages.items())[: 1 if printing.quiet else None]))
    printing.document(lambda: packages)
    return DONE


# ``mtpp hunt``: tests of bounds and heuristics against brute force.


@command
def hunt(
    *,
    methods: Annotated[
        str,
        options.argument(
            metavar="NAME[,…]",
            help="mine.py:NAME, package.module:NAME, names of mtpp list heuristics and models, or all of these: all.",
        ),
    ],
    seconds: Annotated[float, options.of_limits(metavar="SECONDS", help="For all methods together.")] = 60.0,
    words: SeedWords,
    solver: Annotated[str, options.of_search(metavar="NAME", help="Of formulations; see mtpp list solvers.")] = "highs",
    out: Annotated[
        Path, options.of_files(metavar="FOLDER", help="Counterexamples: the graph, and the question with its optimum.")
    ] = Path("hunted"),
    printing: Printing,
) -> int:
    """Test bounds and heuristics on small random questions against brute force.

    A bound above the optimum, a partition that breaks a rule, two answers to one question, a search much longer than
    its limit or an error ends the hunt for that method; the question is made small and written. Exit code 1 then, 6
    if the time of a method was too short for a question.

    Example: mtpp hunt mine.py:BOUND --seconds 60 --seed 7
    """
    from mtpp.api.comparison import methods_of
    from mtpp.runs.hunting import hunt_methods

    check_folder("out", out)
    with printing.working("hunting") as live:
        outcomes = hunt_methods(methods_of(methods), seconds, words["seed"], solver, live.show)
    code = DONE if all(outcome.asked for outcome in outcomes) else UNCHECKED
    for outcome in outcomes:
        printing.say(str(outcome))
        if outcome.counterexample is not None:
            code = FALSE
            for path in outcome.counterexample.save(out, outcome.method):
                printing.say(str(path))
    printing.document(lambda: [outcome.document() for outcome in outcomes])
    return INTERRUPTED if outcomes[-1].interrupted else code


_GROUP = "mtpp.commands"


class _Verbs(TyperGroup):
    """The verbs of this project, then those of other packages (entry points of ``mtpp.commands``)."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Look up a verb; other packages are searched if it is not one of this project."""
        verb: Any = super().get_command(ctx, cmd_name) or _registered(cmd_name)
        if verb is not None:
            _without_types(verb.params)
            verb.make_parser = partial(_parser, verb)
        return verb

    def get_params(self, ctx: Any) -> Any:
        """The options that stand before a verb."""
        return _without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Look up the verb of a command line; an `InputError` names the nearest one if there is none."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise InputError(unknown([name for name in self.list_commands(ctx) if name != args[0]], args[0], "verb"))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, as the help lists them."""
        names = super().list_commands(ctx)
        return [*names, *sorted({entry.name for entry in entry_points(group=_GROUP)} - {*names})]


def _parser(verb: Any, context: Any) -> Any:
    """The parser of a verb; an option that takes one value is refused twice, as the last would hide the others."""
    parser = type(verb).make_parser(verb, context)
    parse = parser.parse_args

    def parse_once(args: list[str]) -> Any:
        values, rest, order = parse(args=args)
        for option, count in Counter(order).items():
            if count > 1 and option.param_type_name == "option" and not (option.multiple or option.is_flag):
                raise InputError(f"{option.opts[0]} is given {count} times; give it once.")
        return values, rest, order

    if not context.resilient_parsing:  # a shell that completes wants no refusal
        parser.parse_args = parse_once
    return parser


def _without_types(parameters: list[Any]) -> list[Any]:
    """Parameters without the types of flags and arguments, which the help does not show."""
    for parameter in parameters:
        if parameter.param_type_name == "argument" or parameter.is_flag:
            parameter.display_type_rich = lambda ctx: ""  # asked by typer from 0.27 on
    return parameters


def _registered(name: str) -> Any:
    """Load a verb of another package; None if there is none, or if it fails to load, which is a warning."""
    for entry in entry_points(group=_GROUP, name=name):
        try:
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
            single.command(name, rich_help_panel=_RESEARCH)(entry.load())
            return get_command(single)
        except Exception as error:
            fault = f"the command {name} of {entry.value} cannot be loaded: {type(error).__name__}: {error}"
            warnings.warn(fault, InputWarning, stacklevel=2)
    return None


app = typer.Typer(
    name="mtpp",
    cls=_Verbs,
    help="Cut computation graphs into k pipeline blocks, and prove how good the cut is.",
    epilog="Start with: mtpp certify bert-base -k 4   Exit codes: "
    + "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())
    + ".",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        By default the words after the program's name.

    Returns
    -------
    int
        Exit code.
    """
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        _refuse_empty(words)
        with terminate_as_interrupt(), _warnings_in_one_line(), _saying_compilation(words), _words_as_options():
            code = _command()(args=None if argv is None else words, prog_name="mtpp", standalone_mode=False) or DONE
            sys.stdout.flush()  # a full disk or a closed pipe shows here
            return int(code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        return NOTHING
    except NothingFitsError as error:
        return complain(str(error), IMPOSSIBLE if error.proved else NOTHING)
    except InputError as error:
        return complain(str(error), WRONG)
    except OSError as error:
        return complain(f"{error.filename or 'system'}: {error.strerror or error}.", WRONG)
    except MemoryError:
        return complain("This needs more memory than there is; ask for less, or give a smaller graph.", WRONG)
    except Exception as error:
        if hasattr(error, "format_message"):  # usage errors of typer; their class has moved between its versions
            message, context = _usage(error), getattr(error, "ctx", None)
            path = "mtpp" if context is None else context.command_path
            return complain(f"{message} Try: {path} --help", WRONG) if message else WRONG
        from mtpp import SolverNotAvailableError
        from mtpp.runs.workers import WorkersLostError

        if isinstance(error, SolverNotAvailableError | WorkersLostError):
            return complain(str(error), NO_SOLVER)
        if _interrupted(error):
            return INTERRUPTED
        if os.environ.get("MTPP_DEBUG"):
            raise
        fault = f"{type(error).__name__}: {error}"
        return complain(f"internal fault ({fault}); please report it. MTPP_DEBUG=1 shows where.", NOTHING)


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty text, as of a variable of the shell that is not set: as a path it would be the folder of here."""
    for before, text in pairwise(["mtpp", *words]):
        if not text or re.fullmatch("--[a-z-]+=", text):
            empty = text or f"{before} ''"
            raise InputError(f"{empty}: there is nothing in this text; give a value, or leave it out.")


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: an import of compiled code that it breaks off raises another error from it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _usage(error: Any) -> str:
    """The message of a usage error of typer; an unknown option gets the nearest one."""
    if not hasattr(error, "possibilities"):
        return str(error.format_message())
    visible = [option for option in error.ctx.command.get_params(error.ctx) if not getattr(option, "hidden", False)]
    names = {
        name.lstrip("-"): name
        for option in visible
        for name in (*option.opts, *option.secondary_opts)
        if name[0] == "-"
    }
    word = error.option_name.lstrip("-")
    renamed = option_of(word.replace("-", "_")).lstrip("-")  # of Python's word
    end = nearest(names.values(), names.get(renamed, error.option_name))
    return error.message + (end if end != "." else _elsewhere(word, names))


def _elsewhere(word: str, names: Container[str]) -> str:
    """End of a message on an unknown option without a similar one: a dimension of that name, or verbs that take it."""
    dim = word.replace("-", "_")
    if "dim" in names and any(dim in architecture.dim_names for architecture in ARCHITECTURES.values()):
        return f"; did you mean --dim {dim}=…?"
    group: Any = _command()
    verbs = {name: verb.params for name, verb in group.commands.items()}
    takers = [name for name, options in verbs.items() if any(f"--{word}" in option.opts for option in options)]
    return f"; it is an option of {', '.join(takers)}." if takers else "."


@cache
def _command() -> Callable[..., Any]:
    """The command with all verbs, made once, as that takes as long as a small question."""
    return get_command(app)


def _print_version(value: bool) -> None:
    if value:
        from mtpp.versions import package_version

        print(f"mtpp {package_version() or 'not installed, run from its folder'}")
        raise typer.Exit


#: Panels of the help with their verbs; verbs of other packages are for research.
_RESEARCH = "Research"
_PANELS: dict[str, dict[str, Callable[..., int]]] = {
    "Cut": {"certify": certify, "partition": partition, "bound": bound},
    "Deploy": {"serve": serve, "flow": flow, "split": split, "run": run, "export": export, "check": check},
    "Train and place": {"train": train, "plan": plan, "place": place},
    "Check": {"verify": verify, "explain": explain, "report": report},
    _RESEARCH: {"features": features, "hunt": hunt},
    "Tools": {"list": list_names, "import": import_graph, "warm-up": warm_up, "versions": show_versions},
}
for panel, verbs in _PANELS.items():
    for name, verb in verbs.items():
        app.command(name, rich_help_panel=panel)(verb)


@app.callback()
def _begin(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and leave.")
    ] = False,
) -> None:
    """Handle the options before the verb."""


@contextmanager
def _words_as_options() -> Iterator[None]:
    """Make messages spell keyword arguments as options of the command line."""
    token = spelling.set(spelled)
    try:
        yield
    finally:
        spelling.reset(token)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print each `InputWarning` and each deprecation once, as a line on stderr."""
    printed: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, InputWarning | FutureWarning):
            others(message, category, *place, **more)
        elif str(message) not in printed:
            printed.add(str(message))
            complain(f"warning: {message}", DONE)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        others, warnings.showwarning = warnings.showwarning, show
        yield


class _Teller(logging.Handler):
    """Log handler that prints on stderr; at its first record a process starts to compile ahead for `certify`."""

    def __init__(self, words: Sequence[str], beside: ExitStack) -> None:
        super().__init__()
        self._waits, self._process, self._beside = "certify" in words[:1], os.getpid(), beside

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage(), DONE)
        if self._waits and record.levelno == logging.INFO and processors() > 1 and os.getpid() == self._process:
            self._waits = False
            with suppress(OSError):
                self._beside.enter_context(module_beside("mtpp.cli.warm_up"))


@contextmanager
def _saying_compilation(words: Sequence[str]) -> Iterator[None]:
    """Print messages on the compilation of kernels, which delays everything else, inside of the context."""
    logger, before = logging.getLogger("instances.compiled"), logging.getLogger("instances.compiled").level
    with ExitStack() as beside:
        teller = _Teller(words, beside)
        logger.addHandler(teller)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(teller)
            logger.setLevel(before)
