"""Call the public interface with wrong values, and count the exceptions that have no code.

    python -m tests.fuzz.calls --seconds 60 --seed 7

A program is a tree of calls that is right as it stands: a spec, links, strategies, ops, verbs. One or two of its
arguments are replaced by values of any kind, and it runs. It may work, or be refused with a code. Another exception, or
ten seconds without an answer, is a finding, counted by the line of fireiron that raised it. What Python itself refuses
(an unknown keyword, a missing argument) and what a user's own function raises do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import fireiron as fi
from fireiron.front.state import State
from fireiron.front.verbs import Schedule
from tests.fuzz.make import Make
from tests.fuzz.programs import programs
from tests.fuzz.values import shown, wrong

FIREIRON = str(Path(fi.__file__).parent)
SCHEDULES = str(Path(fi.__file__).parent.parent / "schedules")
HERE = str(Path(__file__).parent)
MOST_S = 10.0  # of one program, of processor time: other work on the machine does not count
MOST_NBYTES = 8 << 30  # of the process's address space


class Slow(BaseException):
    """Say that a program took too long: no `except Exception` on the way may keep it."""


def nodes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Make]]:
    """List the calls of a program that fireiron answers, each with the way to it."""
    if not isinstance(tree, Make):
        return
    yield path, tree
    for i, arg in enumerate(tree.args):
        yield from nodes(arg, (*path, i))
    for name, arg in tree.named.items():
        yield from nodes(arg, (*path, name))


def put(tree: Make, path: tuple[Any, ...], made: Make) -> Make:
    """Replace the call at the end of a way."""
    if not path:
        return made
    first, *rest = path
    if isinstance(first, int):
        args = list(tree.args)
        args[first] = put(args[first], tuple(rest), made)
        return attrs.evolve(tree, args=tuple(args))
    return attrs.evolve(tree, named={**tree.named, first: put(tree.named[first], tuple(rest), made)})


def changed(node: Make, draw: random.Random) -> Make:
    """Replace one argument of a call, an element of one, or give one that was left to its default."""
    places: list[Any] = list(range(1 if node.is_method else 0, len(node.args)))
    places += [*node.named, *_optional(node)]
    if not places:
        return attrs.evolve(node, args=(*node.args, wrong(draw)))
    place = draw.choice(places)
    if isinstance(place, str):
        return attrs.evolve(node, named={**node.named, place: _other(node.named.get(place), draw)})
    args = list(node.args)
    args[place] = _other(args[place], draw)
    if draw.random() < 0.03:
        args.append(wrong(draw))
    return attrs.evolve(node, args=tuple(args))


def _other(value: Any, draw: random.Random) -> Any:
    if isinstance(value, tuple) and value and draw.random() < 0.5:
        items = list(value)
        items[draw.randrange(len(items))] = wrong(draw)
        return tuple(items[: draw.randrange(1, len(items) + 1)])
    if isinstance(value, int) and 0 <= value < 2**31 and draw.random() < 0.3:
        return draw.choice((np.int64, np.int32, np.uint32, float, np.float32, str, lambda x: -x, lambda x: x + 1))(
            value
        )
    return wrong(draw)


def _optional(node: Make) -> tuple[str, ...]:
    """Name the parameters of a call that it leaves to their defaults."""
    function = node.function
    if node.is_method:
        function = next((getattr(c, node.function) for c in _CLASSES if hasattr(c, node.function)), None)
    if function is None:
        return ()
    try:
        listed = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    free = [p for p in listed[len(node.args) :] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return tuple(p.name for p in free if p.name not in node.named and p.name != "self")


def _subclasses(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


_CLASSES: tuple[type, ...] = tuple(_subclasses(State))


@attrs.frozen
class Finding:
    """Hold an exception that has no code.

    Args:
        site: what was raised, and the innermost line of fireiron.
        program: the calls that led to it.
        message: the exception's.
        trace: its frames.
    """

    site: str
    program: str
    message: str
    trace: str = attrs.field(eq=False, default="")


def drawn(draw: random.Random, from_: Mapping[str, Make]) -> tuple[str, Make]:
    """Draw a program, and make one or two of its arguments wrong."""
    name = draw.choice(sorted(from_))
    tree = from_[name]
    for _ in range(1 if draw.random() < 0.8 else 2):
        path, node = draw.choice(list(nodes(tree)))
        tree = put(tree, path, changed(node, draw))
    return name, tree


def _stop(signum: int, frame: Any) -> None:
    raise Slow


def _verbs(result: Any) -> None:
    """Ask a schedule for all that needs no GPU and little time."""
    if not isinstance(result, State):
        str(result)
        return
    str(result), repr(result), hash(result)
    if isinstance(result, Schedule):
        result.tree()
        if result.residual.closed:
            result.cuda(), result.check("sm_90a")


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Bound the time and memory of what runs inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_NBYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def attempt(tree: Any) -> tuple[str, Finding | None]:
    """Run a program; say how it ended (`worked`, `refused`, `python`, `user`, `finding`), and what was found."""
    text = ""
    try:
        with limited(MOST_S), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(io.StringIO()):
                _verbs(tree.run())
        return "worked", None
    except fi.FireironError as error:
        try:
            text = str(error)
        except Exception as inner:
            return _finding(tree, inner)
        return ("refused", None) if error.code and text else _finding(tree, error)
    except (Exception, Slow) as error:
        return _finding(tree, error)


def _finding(tree: Any, error: BaseException) -> tuple[str, Finding | None]:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith((FIREIRON, SCHEDULES))]
    if isinstance(error, Slow):
        ours = ours[:6]  # where it was when time was up says less than where it began
    elif not ours or (ours[-1].filename.endswith("contract.py") and " argument" in str(error)):
        return "python", None
    elif frames[-1].filename.startswith(HERE):
        return "user", None
    last = ours[-1] if ours else frames[-1]
    place = f"{Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno} {last.name}"
    trace = "".join(f"      {Path(f.filename).name}:{f.lineno} {f.name}\n" for f in frames[-8:])
    return "finding", Finding(f"{type(error).__name__} {place}", str(tree), shown(error), trace)


@attrs.frozen
class Outcome:
    """Hold what many programs came to.

    Args:
        counts: how they ended.
        sites: how often each site was met.
        first: the first finding of each site.
    """

    counts: Counter[str]
    sites: Counter[str]
    first: dict[str, Finding]

    def __str__(self) -> str:
        total = sum(self.counts.values())
        words = ", ".join(f"{n} {name}" for name, n in self.counts.most_common())
        lines = [f"{total} programs: {words}; {len(self.sites)} sites without a code"]
        for site, n in self.sites.most_common():
            found = self.first[site]
            lines += [f"{n:6} {site}: {found.message}", f"       {found.program}", found.trace.rstrip()]
        return "\n".join(lines)


def fuzz(seed: int, seconds: float, most: int = 10**9, among: Mapping[str, Make] | None = None) -> Outcome:
    """Run programs until the time is over, or so many have run.

    Args:
        seed: of all that is drawn.
        seconds: how long.
        most: how many at most.
        among: the programs, all of them where None.
    """
    draw, end = random.Random(seed), time.monotonic() + seconds
    known = among or programs()
    outcome = Outcome(Counter(), Counter(), {})
    for _ in range(most):
        if time.monotonic() > end:
            break
        _, tree = drawn(draw, known)
        how, found = attempt(tree)
        outcome.counts[how] += 1
        if found is not None:
            outcome.sites[found.site] += 1
            outcome.first.setdefault(found.site, found)
    return outcome


def main() -> int:
    """Read the options, run, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.calls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--most", type=int, default=10**9)
    parser.add_argument("--only", default="", help="programs whose names hold this")
    parser.add_argument("--base", action="store_true", help="run the programs as they stand, without wrong values")
    options = parser.parse_args()
    among = {name: tree for name, tree in programs().items() if options.only in name}
    if options.base:
        for name, tree in among.items():
            started = time.perf_counter()
            how, found = attempt(tree)
            print(f"{name}: {how} {time.perf_counter() - started:.2f} s", found or "")
        return 0
    print(f"seed {options.seed}")
    outcome = fuzz(options.seed, options.seconds, options.most, among)
    print(outcome)
    return int(bool(outcome.sites))


if __name__ == "__main__":
    sys.exit(main())
