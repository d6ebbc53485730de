"""Read a command: the verb, the schedule, and options, some of which the schedule's signature adds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import attrs

from fireiron.base.errors import FireironError, UsageError
from fireiron.base.text import by
from fireiron.front.cli.problem import Problem, coefficient, dtypes, extent, setting, shape
from fireiron.language.storage_order import letters
from fireiron.tune.space import values_of

if TYPE_CHECKING:
    from fireiron.front.cli.find import Target
    from fireiron.front.cli.keywords import Keyword
    from fireiron.front.cli.output import Answer
    from fireiron.front.verbs import Schedule

T = TypeVar("T")

HERE = "fireiron.front.cli"
ARCH_HELP = "architecture, for example sm_90a (default: the GPU's, else sm_90a)"
TWO = "%(prog)s SCHEDULE [options] SCHEDULE [options]"
GIVEN = "given"  # name in a namespace: the options that were on the command line, with their values
SPEC_OPTIONS = tuple(field.name for field in attrs.fields(Problem))


@attrs.frozen
class Verb:
    """Describe a verb.

    Args:
        about: help in one line.
        module: name of the module whose function of the verb's name runs the command.
        schedules: number of schedules that the verb takes.
        spec: whether the verb takes a spec's options, though it takes no schedule.
        options: function that adds the verb's own options to a parser.
    """

    about: str
    module: str
    schedules: int = 1
    options: Callable[[Any], None] = lambda parser: None
    spec: bool = False


@attrs.frozen
class Command:
    """Hold a command that was read.

    Args:
        verb: name of the verb.
        options: options as argparse read them; for two schedules, those of the first.
        requests: the command's schedules.
    """

    verb: str
    options: argparse.Namespace
    requests: tuple[Request, ...] = ()

    @property
    def request(self) -> Request:
        """Return the request of a command with one schedule."""
        return self.requests[0]

    @property
    def schedule(self) -> Schedule:
        """Build the schedule of a command with one schedule."""
        return self.requests[0].build()

    def run(self) -> Answer:
        """Run the command."""
        module = import_module(f"{HERE}.{VERBS[self.verb].module}")
        return getattr(module, self.verb)(self)


@attrs.frozen
class Request:
    """Hold one schedule of a command.

    Args:
        target: the preset, or the function or schedule in a file.
        problem: the spec's options.
        values: the preset's keywords.
    """

    target: Target
    problem: Problem
    values: dict[str, Any]

    def build(self) -> Schedule:
        """Build the schedule."""
        return self.target.build(self.problem, self.values)

    @property
    def text(self) -> str:
        """Write the reference with the keywords that were given."""
        return " ".join((self.target.reference, *(f"{name}={value}" for name, value in self.values.items())))


def _show(parser: Any) -> None:
    parser.add_argument("--width", type=int, help="columns (default: the terminal's)")


def _settings(parser: Any) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        type=told(setting),
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a symbol or of a scalar",
    )


def _emit(parser: Any) -> None:
    parser.add_argument("-o", "--output", metavar="FILE.cu", help="write the CUDA there")


def _export(parser: Any) -> None:
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write")
    several = "architectures, each with machine code of its own: sm_80,sm_90a, or --arch several times"
    parser.add_argument("--arch", "--archs", dest="archs", action="extend", type=_split, default=[], help=several)


def _studio(parser: Any) -> None:
    _settings(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", help="write the page there (default: a temporary file)")
    parser.add_argument("--no-open", action="store_true", help="write the page, and open no browser")
    parser.add_argument(
        "--block", type=told(_counted), default=0, metavar="N", help="whose steps are shown (default: 0)"
    )


def _compile(parser: Any) -> None:
    parser.add_argument("-o", "--output", metavar="FILE.cubin", help="write the machine code there")
    parser.add_argument("--ptx", action="store_true", help="print the PTX; facts go to stderr")
    parser.add_argument("--sass", action="store_true", help="print the machine code as text; facts go to stderr")
    parser.add_argument("--lineinfo", action="store_true", help="keep source lines for profilers")
    parser.add_argument("--debug", action="store_true", help="bound every wait on an mbarrier: a hang names it")
    parser.add_argument("--allow-spills", action="store_true", help="report spills and serialised products, and go on")
    parser.add_argument("--max-registers", type=int, metavar="N", help="cap of registers a thread")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the disk cache")


def _execute(parser: Any) -> None:
    _settings(parser)
    about = "simulate the first N blocks, and verify what they write"
    parser.add_argument("--blocks", type=told(_positive), metavar="N", help=about)
    parser.add_argument("--seed", type=told(_counted), default=0, help="of the random inputs (default: 0)")


def _simulate(parser: Any) -> None:
    _execute(parser)
    parser.add_argument("--no-track", action="store_true", help="do not look for races")


def _tune(parser: Any) -> None:
    about = "values of a keyword instead of the preset's own, as m=64,128 or warp=64x32,32x32"
    parser.add_argument("--space", type=values_of, action="append", default=[], metavar="NAME=V,V", help=about)
    parser.add_argument("--suite", metavar="NAME", help="tune every case of a suite of fireiron bench")
    parser.add_argument("--effort", default="quick", help="quick (20 s a shape) or full (15 min)")
    parser.add_argument("--budget", type=float, metavar="S", help="seconds a shape, instead of the effort's")
    parser.add_argument("--device", type=int, default=0, help="the GPU's ordinal (default: 0)")
    _records_file(parser)


def _records_file(parser: Any) -> None:
    parser.add_argument("--records", metavar="FILE", help="file of records (default: FIREIRON_RECORDS, or the user's)")


def _records(parser: Any) -> None:
    about = "merge FILES into the first; show what they hold; check their lines; repair: move broken lines aside"
    parser.add_argument("action", choices=("merge", "show", "check", "repair"), help=about)
    parser.add_argument("files", nargs="+", metavar="FILE")


def _cache(parser: Any) -> None:
    parser.add_argument("action", choices=("path", "clear"))


def _completion(parser: Any) -> None:
    about = "a shell, whose script is printed; words: candidates for the last of the words behind it"
    parser.add_argument("action", choices=("bash", "zsh", "fish", "words"), help=about)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _why(parser: Any) -> None:
    parser.add_argument("error_code", nargs="?", metavar="CODE", help="what stands in an error's brackets")


def _split(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{text!r} is no number from 1 on")
    return int(text)


def _counted(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is no number from 0 on")
    return int(text)


class _Once(argparse.Action):
    """Store an option's value; refuse a second, different value, where argparse would keep the last."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = namespace.__dict__.setdefault(GIVEN, {})
        before = given.setdefault(self.dest, values)
        if self.option_strings and before != values:
            raise argparse.ArgumentError(self, f"has two values, {by(before)} and {by(values)}")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """Read the words of a command; an unknown word is an error with a code.

    An option that takes one value may be repeated with the same value, not with another one.

    Attributes:
        command: name of the command whose help an error recommends; the parser's own where empty.
    """

    command = ""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> NoReturn:
        """Refuse the words of a command.

        Raises:
            UsageError: `bad-command`.
        """
        raise UsageError("bad-command", f"{self.prog}: {message}", fix=f"see {self.command or self.prog} --help")


def told(read: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap a function that reads a word, so that argparse prints the function's message instead of its name."""

    def reading(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return reading


VERBS = {
    "list": Verb("list the presets", "look", 0),
    "show": Verb("print the decomposition tree", "look", options=_show),
    "check": Verb("check against an architecture's limits", "look"),
    "explain": Verb("say of each link what it changed, moved and emitted", "look", options=_show),
    "diff": Verb("say how two schedules differ", "look", 2, options=_show),
    "estimate": Verb("estimate the time, and name what bounds it", "look", options=_settings),
    "studio": Verb("open a page with links, CUDA, findings, pictures and a block's steps", "make", options=_studio),
    "emit": Verb("print the CUDA", "make", options=_emit),
    "compile": Verb("compile, and print registers, spills and sizes", "make", options=_compile),
    "export": Verb("write CUDA, machine code and a C launcher for programs without Python", "make", options=_export),
    "simulate": Verb("run on the simulator, and verify", "execute", options=_simulate),
    "run": Verb("run on the GPU, else on the simulator, and verify", "execute", options=_execute),
    "why": Verb("explain an error's code, or list all codes", "look", 0, options=_why),
    "tune": Verb("search for a preset's fastest keywords on the GPU", "tuning", options=_tune),
    "best": Verb("say which schedule fireiron.best chooses, and why", "tuning", 0, options=_records_file, spec=True),
    "records": Verb("merge files of records, show, check or repair them", "tuning", 0, options=_records),
    "bench": Verb("time schedules against peers; fireiron bench --help tells more", "", 0),
    "doctor": Verb("say what this machine has, and what works on it", "make", 0),
    "cache": Verb("print the path of the disk cache, or clear it", "make", 0, options=_cache),
    "completion": Verb(
        "print a script that completes commands in bash, zsh or fish", "complete", 0, options=_completion
    ),
}


def parse(words: Sequence[str]) -> Command:
    """Read a command.

    Raises:
        UsageError: `bad-command`, and as `find` does. SystemExit: where argparse has printed help or the version.
    """
    top = Parser(
        prog="fireiron",
        description="Check, show, simulate, compile and run GPU kernels that are written as schedules.",
        epilog="A SCHEDULE is a preset (fireiron list) or path/file.py:function; VERB SCHEDULE --help tells more.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"fireiron {sys.modules['fireiron'].__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        verbs.add_parser(name, help=verb.about, add_help=False)
    if not words or words[0] not in VERBS:
        top.parse_args(words)  # prints help, the version, or what is wrong
        raise AssertionError(words)
    name, rest = words[0], list(words[1:])
    match VERBS[name].schedules:
        case 0:
            return Command(name, option_parser(name, None).parse_args(rest))
        case 1:
            options, request = _request(name, rest)
            return Command(name, options, (request,))
        case _:
            return _two(name, rest)


def architecture(name: str | None) -> str | None:
    """Check that an architecture exists.

    Raises:
        UsageError: `unknown-arch`.
    """
    from fireiron.algebra.arch import arch

    try:
        return None if name is None else arch(name).name
    except FireironError as error:
        raise UsageError(error.code, error.message, fix=error.fix) from None


def _two(name: str, words: list[str]) -> Command:
    """Read two schedules, each with its own options; a spec's option for one schedule applies to both."""
    if "--" in words:
        at = words.index("--")
        left, right = words[:at], words[at + 1 :]
    else:
        places = [i for i, word in enumerate(words) if is_schedule(word)]
        at = places[1] if len(places) > 1 else len(words)
        left, right = words[:at], words[at:]
    if not right and not {"-h", "--help"} & {*words}:
        option_parser(name, None).error("name two schedules, each followed by its options")
    options, first = _request(name, left)
    others, second = _request(name, right)
    for field in ("json", "arch", "width"):
        setattr(options, field, getattr(options, field) or getattr(others, field))
    both = (
        attrs.evolve(first, problem=first.problem.over(second.problem)),
        attrs.evolve(second, problem=second.problem.over(first.problem)),
    )
    return Command(name, options, both)


def is_schedule(word: str) -> bool:
    """Say whether a word names a schedule."""
    from fireiron.front.cli.find import is_reference

    return is_reference(word)


def _request(name: str, words: list[str]) -> tuple[argparse.Namespace, Request]:
    """Read a schedule, then its options, which depend on its signature."""
    from fireiron.front.cli.find import find
    from fireiron.front.cli.keywords import PREFIX

    first, _ = option_parser(name, None, strict=False).parse_known_args([w for w in words if w not in ("-h", "--help")])
    if first.schedule is None:
        parser = option_parser(name, None)
        parser.parse_args(words)
        parser.error("name a schedule: a preset (fireiron list), or path/file.py:function")
    if not is_schedule(first.schedule) and words[0] != first.schedule:
        raise UsageError(
            "schedule-first",
            f"{first.schedule} is no schedule",
            fix=f"name the schedule before its options: fireiron {name} SCHEDULE ...",
        )
    target = find(first.schedule)
    options = option_parser(name, target).parse_args(words)
    values = {k.removeprefix(PREFIX): v for k, v in vars(options).items() if k.startswith(PREFIX)}
    oldest = _oldest(options.archs) if "archs" in options else architecture(options.arch)
    if oldest is not None and any(_is_target(keyword) for keyword in target.keywords):
        values["arch"] = oldest
    return options, Request(target, problem_of(options), values)


def _oldest(names: Sequence[str]) -> str | None:
    """Return the oldest of several architectures, whose instructions the newer ones have too."""
    from fireiron.algebra.arch import arch

    known = [str(architecture(name)) for name in names]
    return min(known, key=lambda name: (arch(name).number, name), default=None)


def _is_target(keyword: Keyword) -> bool:
    """Say whether a preset's keyword is the architecture, which --arch sets for both preset and verb."""
    return keyword.name == "arch" and keyword.kind is str


def problem_of(options: argparse.Namespace) -> Problem:
    """Read the spec's options."""
    return Problem(**{field: getattr(options, field) for field in SPEC_OPTIONS})


def option_parser(name: str, target: Target | None, *, strict: bool = True) -> Parser:
    """Make the parser of a verb, with the options that a schedule's signature adds."""
    verb = VERBS[name]
    parser = Parser(
        prog=f"fireiron {name}",
        description=f"{verb.about[0].upper()}{verb.about[1:]}.",
        usage=TWO if verb.schedules > 1 else None,
        add_help=strict,
        allow_abbrev=False,
    )
    parser.command = "" if target is None else f"fireiron {name} {target.reference}"
    parser.add_argument("--json", action="store_true", help="print JSON alone on stdout")
    if verb.schedules:
        # A reference may be missing in the first reading, where help or an error is due.
        parser.add_argument("schedule", nargs=None if target else "?", help="a preset, or path/file.py:function")
    verb.options(parser)
    if (verb.schedules or verb.spec) and parser.get_default("archs") is None:
        parser.add_argument("--arch", help=ARCH_HELP)
    if verb.schedules or verb.spec:
        spec = parser.add_argument_group("spec")
        sizes = "numbers, or names of symbols; of a program the extents of its dims, of a Move MxN"
        spec.add_argument("--shape", type=told(shape), metavar="MxNxK", help=sizes)
        spec.add_argument(
            "--dtype", type=told(dtypes), metavar="IN[:ACC[:OUT]]", help="element types, for example float16"
        )
        about = "order of A and B: TN or row,col is A[M, K] and B[N, K] (default: the preset's, NN in most)"
        spec.add_argument("--layout", type=told(letters), metavar="NN|NT|TN|TT", help=about)
        spec.add_argument("--batch", type=told(extent), metavar="N", help="number of products")
        spec.add_argument("--groups", type=told(extent), metavar="N", help="number of products that share the M rows")
        spec.add_argument("--alpha", type=told(coefficient), help="factor of the product, a number or a name")
        spec.add_argument("--beta", type=told(coefficient), help="factor of C's old value, a number or a name")
    if target is not None and target.keywords:
        taken = frozenset(parser._option_string_actions)  # pyright: ignore[reportPrivateUsage]
        group = parser.add_argument_group(f"options of {target.reference}", target.about or None)
        for keyword in target.keywords:
            if not _is_target(keyword):
                keyword.add_to(group, taken)
    if not strict:
        for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
            action.required = False
    return parser
