"""The command line: `python -m bench SUITE... [SCHEDULE...]`, also as `fireiron bench`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fireiron.base.errors import FireironError, UsageError
from fireiron.front.cli.options import Parser, told
from fireiron.front.cli.output import report_error
from fireiron.language.storage_order import letters

from .cases import Case, case, with_options
from .compare import compare
from .measure import Options, here, measure, why_not_timed
from .plot import write as write_plot
from .results import Result, of_programs, read, read_programs, write
from .subjects import PEERS, subject
from .suites import SUITES, drawn, suite
from .tables import FOOT, UNTIMED, draw, markdown, problems, programs_markdown, summaries

RIGHT, WRONG, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None, prog: str = "python -m bench") -> int:
    """Run the command line.

    Returns:
        The exit code: 0 for success, 1 for a wrong result of ours or a regression, 2 for a command that cannot be
        understood, 130 if interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = shlex.join([*prog.split(), *map(_anywhere, words)])
    try:
        if words[:1] == ["overhead"]:
            from .overhead import run as overhead

            return overhead()
        if words[:1] == ["programs"]:
            from .programs import run as programs

            return programs(words[1:], command)
        if words[:1] in (["rows"], ["reductions"], ["pointwise"]):
            from . import pointwise, reductions, rows

            suite = {"rows": rows, "reductions": reductions, "pointwise": pointwise}[words[0]]
            return suite.run(words[1:], command)
        if words[:1] == ["row-calls"]:
            from .row_calls import run as row_calls

            return row_calls(words[1:], command)
        if words[:1] == ["conv"]:
            from .conv import run as conv

            return conv(words[1:], command)
        if words[:1] == ["conv-table"]:
            from .conv_table import run as conv_table

            return conv_table(words[1:], command)
        if words[:1] in (["attention"], ["attention-decode"], ["attention-bwd"]):
            from . import attention, attention_bwd, attention_decode

            forms = {"attention": attention, "attention-decode": attention_decode, "attention-bwd": attention_bwd}
            return forms[words[0]].run(words[1:], command)
        if words[:1] == ["networks"]:
            from .networks import run as networks

            return networks(words[1:], command)
        if words[:1] == ["networks-table"]:
            from .networks_table import run as networks_table

            return networks_table(words[1:], command)
        if words[:1] == ["conv-plans"]:
            from .conv_plans import run as conv_plans

            return conv_plans(words[1:], command)
        if words[:1] == ["plans"]:
            from .plans import run as plans

            return plans(words[1:], command)
        if words[:1] == ["choices"]:
            from .choices import run as choices

            return choices(words[1:])
        if words[:1] == ["classes"]:
            from .classes import run as classes

            return classes(words[1:], command)
        if words[:1] == ["fit"]:
            from .fit import run as fit

            return fit(words[1:])
        if words[:1] in (["tiles"], ["fit-tiles"]):
            from . import tiles

            return tiles.run(words[1:], command) if words[0] == "tiles" else tiles.run_fit(words[1:])
        if words[:1] in (["attention-forms"], ["fit-attention"]):
            from . import attention_forms as forms

            return forms.run(words[1:]) if words[0] == "attention-forms" else forms.run_fit(words[1:])
        if words[:1] == ["build"]:
            from .build import run as build

            return build(words[1:])
        if words[:1] == ["table"]:
            return _table(words[1:])
        if words[:1] == ["tune"]:
            return _tune(words[1:])
        if words[:1] == ["session"]:
            from .session import parsed
            from .session import run as session

            return session(parsed(words[1:]), command)
        if words[:1] == ["readme"]:
            from .readme import run as readme

            return readme(words[1:])
        return _run(_parser(prog).parse_intermixed_args(words), command)
    except FireironError as error:
        report_error(error, as_json="--json" in words)
        return USAGE if isinstance(error, UsageError) else WRONG
    except SystemExit as stop:  # argparse has printed its message
        return stop.code if isinstance(stop.code, int) else USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `bench table FILE | head`: the pipe is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RIGHT


def _anywhere(word: str) -> str:
    """Shorten absolute paths to the file's name, since results keep the command."""
    option, equals, path = word.rpartition("=")
    return f"{option}{equals}{Path(path).name}" if Path(path).is_absolute() else word


def _parser(prog: str) -> Parser:
    listed = "\n".join(f"  {name:16}{each.about} ({len(each.cases)})" for name, each in SUITES.items())
    parser = Parser(
        prog=prog,
        description="Time schedules against peers: checked against f64, interleaved in one process, L2 flushed.",
        epilog=f"suites:\n{listed}\nothers:\n"
        "  overhead        host time of calls over a bare cuda.core launch; without a GPU their host part\n"
        "  programs        kernels of several products: two sums, LSTM, SwiGLU, MLP, ReLU first\n"
        "  attention       attention against torch's SDPA by cuDNN and by flash\n"
        "  attention-decode  few queries against long caches, likewise\n"
        "  attention-bwd   gradients of attention, likewise\n"
        "  networks        whole networks by torch.compile with this backend against eager torch and its compiler\n"
        "  networks-table  the five transformers in all batches and lengths, each alone on its GPU, one table\n"
        "  conv            convolutions and their gradients against torch's by cuDNN\n"
        "  conv-table      the same of known networks' layers and of drawn ones, with epilogs, row by row\n"
        "  rows            softmax, the norms and their gradients against a copy, torch and torch.compile\n"
        "  row-calls       first calls and the host's part of calls of operators on rows, beside torch's\n"
        "  reductions      sums over columns, rows, all and other dims, likewise\n"
        "  pointwise       pointwise programs of one to six inputs, likewise\n"
        "  plans SUITE     the first plan of hopper.gemm, and the fastest of its first ten, over a peer; L2 flushed\n"
        "  conv-plans      the same of conv.wgmma over cuDNN, on layers that --seed draws\n"
        "  choices         whether the compiler builds what best chooses, for drawn products; needs no GPU\n"
        "  classes         drawn products of every class over their peers, one table; seeds from a commit's hash\n"
        "  build SUITE     time of chains, lowering, printing, compiling, and of a suite's first calls; needs no GPU\n"
        "  table FILE      results as Markdown\n"
        "  tune SUITE      tunes cases within a budget, and keeps the fastest as records\n"
        "  session         tunes and measures all suites within a budget of seconds\n"
        "  readme          writes the tables of the README and of the page of numbers from bench/results",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="SUITE|SCHEDULE", help="suites, and what to time (default: best)")
    parser.add_argument("--shape", nargs="+", default=[], metavar="MxNxK", help="cases instead of a suite's")
    parser.add_argument("--dtype", help="element types, in[:acc[:out]], instead of the suite's")
    parser.add_argument(
        "--layout", type=told(letters), metavar="NN|NT|TN|TT", help="layout instead of the suite's: NN, TN or row,col"
    )
    parser.add_argument("--batch", type=int, help="number of products of each --shape")
    parser.add_argument(
        "--vs", nargs="*", metavar="PEER", help=f"{', '.join(PEERS)}, file.py:function (default: torch)"
    )
    parser.add_argument("--rounds", type=int, default=41, help="most samples of each subject (41)")
    parser.add_argument("--budget", type=float, default=1.0, metavar="S", help="seconds of sampling a case (1)")
    parser.add_argument(
        "--sustained", type=float, default=0.0, metavar="S", help="also run each subject S seconds back to back"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the operands and of gemm-random100 (0)")
    parser.add_argument("--count", type=int, metavar="N", help="only the first N cases of each suite")
    parser.add_argument("--arch", help="target where there is no GPU (sm_90a)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file, case by case")
    parser.add_argument("--json", action="store_true", help="print JSON lines alone on stdout")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw the ratios and a roofline into this file")
    parser.add_argument(
        "--compare", metavar="OLD.jsonl", help="compare with these results; exit 1 if a case is slower beyond noise"
    )
    return parser


def _cases(options: argparse.Namespace) -> tuple[str, list[Case], list[str]]:
    """Read the words: the suite's name, the cases, and the subjects to time."""
    suites = [word for word in options.words if word in SUITES]
    subjects = [word for word in options.words if word not in SUITES]
    for word in subjects:
        if "." not in word and word not in ("best", *PEERS):
            suite(word)  # its error lists the suites
    chosen: list[Case] = []
    if options.shape:
        first = SUITES[suites[0] if suites else "gemm"].cases[0]
        kinds = options.dtype or first.dtype, options.layout or first.layout
        chosen = [case(text, *kinds, options.batch) for text in options.shape]
    else:
        for name in suites or ["gemm"]:
            chosen += with_options(drawn(name, options.seed, options.count), options.dtype, options.layout)
    return "+".join(suites) or "gemm", chosen, subjects


def _run(options: argparse.Namespace, command: str) -> int:
    name, cases, subjects = _cases(options)
    old = read(options.compare) if options.compare else None
    machine, why = here(), why_not_timed()
    wanted: list[str] = options.vs or []
    for word in wanted:
        subject(word)  # its error lists the peers
    peers = [] if why else ["torch"] if options.vs is None else wanted
    results: list[Result] = []
    started = time.perf_counter()

    def on_case(found: list[Result]) -> None:
        results.extend(found)
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        lines = [result.to_json(machine, command, when) for result in found]
        if options.output:
            write(options.output, lines)
        if options.json:
            print("\n".join(json.dumps(line) for line in lines), flush=True)
        done = len({result.case for result in results})
        left = (time.perf_counter() - started) / done * (len(cases) - done)
        if sys.stderr.isatty():
            print(f"\r{done} of {len(cases)} cases, about {left:.0f} s left  ", end="", file=sys.stderr, flush=True)

    interrupted = False
    try:
        measure(
            cases,
            [*(subjects or ["best"]), *peers],
            Options(options.rounds, options.budget, options.sustained, options.seed, options.arch),
            suite=name,
            on_case=on_case,
        )
    except KeyboardInterrupt:
        interrupted = True  # measured results are written and shown all the same
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if not options.json:
        _show(results, f"{name} on {machine}", machine.device, why)
    if options.plot:
        write_plot(options.plot, results, f"{name} on {machine.device or 'no GPU'}", machine.device)
    slower = False
    if old is not None:
        slower = _compare(results, *old, machine.device, quiet=options.json)
    if interrupted:
        print(f"interrupted after {len({r.case for r in results})} of {len(cases)} cases", file=sys.stderr)
        return INTERRUPTED
    missing = [word for word in wanted if word not in peers]
    if missing:
        print(f"{', '.join(missing)} cannot be timed: {why}", file=sys.stderr)
    wrong = any(r.ours and r.problem for r in results)
    return WRONG if wrong or slower or missing else RIGHT


def _show(results: Sequence[Result], title: str, device: str, why: str) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    if results:
        Console(width=width).print(draw(results, title, device))
    lines: list[Any] = [*problems(results), *summaries(results)]
    lines.append(UNTIMED.format(why=why) if why else FOOT)
    print("\n".join(lines))


def _compare(new: Sequence[Result], old: Sequence[Result], old_device: str, device: str, *, quiet: bool) -> bool:
    """Print the changes of results; say whether a subject is slower or fails."""
    changes = compare(new, old)
    out = sys.stderr if quiet else sys.stdout
    if old_device and device and old_device != device:
        print(f"the older results are of another device ({old_device}): only ratios can be compared", file=out)
    shown = [change for change in changes if change.verdict != "noise"]
    print("\n".join(str(change) for change in shown), file=out, end="\n" if shown else "")
    print(f"{len(changes) - len(shown)} of {len(changes)} within noise", file=out)
    return any(change.verdict in ("slower", "fails") for change in changes)


def _tune(words: Sequence[str]) -> int:
    from .session import SHIPPED
    from .tuning import run, spread

    parser = Parser(prog="python -m bench tune", description="Tune cases of a suite within a budget.")
    parser.add_argument("suite", nargs="?", default="gemm-random100", choices=list(SUITES))
    parser.add_argument("--count", type=int, default=12, metavar="N", help="number of cases, over the suite (12)")
    parser.add_argument("--budget", type=float, default=240.0, metavar="S", help="seconds for all cases (240)")
    parser.add_argument(
        "--full",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds per case for a search of effort full, 0 for none (0)",
    )
    parser.add_argument("--records", type=Path, default=SHIPPED, metavar="FILE", help="the file of records to ship")
    o = parser.parse_args(words)
    outcomes = run(spread(suite(o.suite).cases, o.count), o.budget, o.records, full_s=o.full)
    return RIGHT if any(each.best_us is not None for each in outcomes) else WRONG


def _table(words: Sequence[str]) -> int:
    parser = Parser(prog="python -m bench table", description="Print results as Markdown.")
    parser.add_argument("file", nargs="+")
    for path in parser.parse_args(words).file:
        if of_programs(path):
            print(f"{programs_markdown(read_programs(path))}\n")
            continue
        results, device = read(path)
        print(f"{markdown(results, device)}\n")
        print("\n".join(summaries(results)))
    return RIGHT
