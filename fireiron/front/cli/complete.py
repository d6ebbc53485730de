"""Completion of command lines in shells: a shell's script calls `fireiron completion words ...` for candidates."""

from __future__ import annotations

import argparse
from typing import Any

from fireiron.front.cli.options import VERBS, Command, option_parser
from fireiron.front.cli.output import Answer

SCRIPTS = {
    "bash": """\
_fireiron() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -o default -W "$(fireiron completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" \\
        -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _fireiron fireiron""",
    "zsh": """\
_fireiron() {
    compadd -- ${(f)"$(fireiron completion words "${(@)words[2,CURRENT]}" 2>/dev/null)"} || _files
}
compdef _fireiron fireiron""",
    "fish": """\
complete -c fireiron -a '(fireiron completion words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'""",
}


def completion(command: Command) -> Answer:
    """Print a shell's script, or the candidates for the last of some words."""
    options = command.options
    if options.action != "words":
        return Answer({"script": SCRIPTS[options.action]}, (SCRIPTS[options.action],))
    found = candidates(options.words)
    return Answer({"candidates": found}, ("\n".join(found),) if found else ())


def candidates(words: list[str]) -> list[str]:
    """List the candidates for the last word; none where a file name is expected.

    Example:
        >>> candidates(["che"]), candidates(["run", "simt.sg"]), candidates(["run", "simt.sgemm", "--la"])
        (['check'], ['simt.sgemm'], ['--layout'])
        >>> candidates(["check", "hopper.gemm", "--layout", "T"])
        ['TN', 'TT']
    """
    *before, last = words or [""]
    if not before:
        return [name for name in VERBS if name.startswith(last)]
    verb = VERBS.get(before[0])
    if verb is None:
        return []
    schedule = next((word for word in before[1:] if "." in word), None)
    actions = _actions(before[0], schedule if verb.schedules else None)
    previous = actions.get(before[-1])
    if previous is not None and previous.nargs != 0:
        return [value for value in _values(previous) if value.startswith(last)]
    if last.startswith("-"):
        return sorted(option for option in actions if option.startswith(last))
    if verb.schedules and (schedule is None or verb.schedules > 1):
        from fireiron.front.cli.find import presets

        return [target.reference for target in presets() if target.reference.startswith(last)]
    return [value for action in _positionals(before[0]) for value in _values(action) if value.startswith(last)]


def _actions(verb: str, schedule: str | None) -> dict[str, argparse.Action]:
    """Map the options of a verb, and of its schedule, to their argparse actions."""
    from fireiron.base.errors import FireironError
    from fireiron.front.cli.find import find

    try:
        target = None if schedule is None else find(schedule)
    except FireironError:  # half a word, or a file that does not import
        target = None
    return dict(option_parser(verb, target)._option_string_actions)  # pyright: ignore[reportPrivateUsage]


def _positionals(verb: str) -> list[Any]:
    found = option_parser(verb, None)._actions  # pyright: ignore[reportPrivateUsage]
    return [action for action in found if not action.option_strings]


def _values(action: argparse.Action) -> list[str]:
    """List the values of an option, if it has a small set of them."""
    from fireiron.algebra.arch import ARCHS
    from fireiron.language.storage_order import LAYOUTS

    archs = tuple(row.name for row in ARCHS)
    known = {"arch": lambda: archs, "archs": lambda: archs, "layout": lambda: (*LAYOUTS, *LAYOUTS.values())}
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    return list(known[action.dest]()) if action.dest in known else []
