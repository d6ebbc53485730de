"""Calls as data: what a call is of, its arguments, and how it is written and done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tests.fuzz.values import shown


@attrs.frozen
class Make:
    """Call a function, or a method of the first argument, with arguments that may be calls themselves.

    Args:
        function: a function, or a method's name.
        args: by position; a method's object first.
        named: by name.
    """

    function: Any
    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    @property
    def is_method(self) -> bool:
        """Say whether the function is a method's name."""
        return isinstance(self.function, str)

    def run(self) -> Any:
        """Do all calls, innermost first."""
        args = [evaluated(x) for x in self.args]
        named = {name: evaluated(x) for name, x in self.named.items()}
        if self.is_method:
            return getattr(args[0], self.function)(*args[1:], **named)
        return self.function(*args, **named)

    def __str__(self) -> str:
        words = [written(x) for x in self.args] + [f"{name}={written(x)}" for name, x in self.named.items()]
        if self.is_method:
            return f"{words[0]}.{self.function}({', '.join(words[1:])})"
        return f"{getattr(self.function, '__name__', self.function)}({', '.join(words)})"


def written(value: Any) -> str:
    """Write an argument as Python."""
    return str(value) if isinstance(value, Make) else shown(value)


def evaluated(value: Any) -> Any:
    """Give an argument's value."""
    if isinstance(value, Make):
        return value.run()
    return tuple(map(evaluated, value)) if isinstance(value, tuple) else value


def call(function: Any, *args: Any, **named: Any) -> Make:
    """Write a call of a function."""
    return Make(function, args, named)


def chain(start: Make, *links: tuple[Any, ...]) -> Make:
    """Write a chain: each link a method's name and its arguments, the last a dictionary where they have names."""
    made = start
    for name, *args in links:
        named = args.pop() if args and isinstance(args[-1], dict) else {}
        made = Make(name, (made, *args), named)
    return made
