"""The command line: every verb of a schedule, for a preset by name or a function in a file.

Exit codes: 0 for success, 1 for a failed check, simulation or result, 2 for a command that cannot be understood.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from fireiron.base.errors import FireironError, UsageError

BENCH = "fireiron.bench.main"
RIGHT, WRONG, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the words after `fireiron`; the process's own where None.

    Returns:
        The exit code.
    """
    # Everything else is imported once it is needed, so that --help answers at once.
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["bench"]:  # the other words are suites, schedules and peers
        return import_module(BENCH).main(words[1:], prog="fireiron bench")
    try:
        from fireiron.front.cli.options import parse

        return _run(parse(words))
    except FireironError as error:
        from fireiron.front.cli.output import report_error

        report_error(error, as_json="--json" in words)
        return USAGE if isinstance(error, UsageError) else WRONG
    except SystemExit as stop:  # argparse has printed help, or the version
        return stop.code if isinstance(stop.code, int) else USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `fireiron emit ... | head`: nobody reads on
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RIGHT


def _run(command: object) -> int:
    from fireiron.front.cli.options import Command
    from fireiron.front.cli.output import show

    assert isinstance(command, Command)
    answer = command.run()
    show(answer, as_json=command.options.json)
    sys.stdout.flush()
    return answer.code
