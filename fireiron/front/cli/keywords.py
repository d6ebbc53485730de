"""Options of the command line for a preset's keywords, read from the preset's signature."""

from __future__ import annotations

import argparse
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import attrs

from fireiron.base.errors import FireironError
from fireiron.base.text import by

PREFIX = "keyword_"
RECORD = "NAME=VALUE,..."
KINDS: dict[type, str] = {int: "whole number", float: "number", bool: "yes or no", str: "word"}
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@attrs.frozen
class Keyword:
    """Describe one keyword of a preset.

    Args:
        name: name of the parameter.
        kind: int, float, str, bool, or tuple.
        default: the parameter's default; None also where it has none.
        required: whether the keyword must be given.
        choices: the values of a `Literal`; empty for other types.
        element: type of a tuple's elements.
        about: the parameter's text in the docstring.
        fields: fields of a keyword that is a class, such as hopper.Plan, whose value is written
            `n=192,pingpong,cluster=2x1`.
    """

    name: str
    kind: type
    default: Any = None
    required: bool = False
    choices: tuple[Any, ...] = ()
    element: type = int
    about: str = ""
    fields: tuple[Keyword, ...] = ()

    @property
    def option(self) -> str:
        """Write the option's name: `--stages`.

        Example:
            >>> Keyword("max_stages", int).option
            '--max-stages'
        """
        return f"--{self.name.replace('_', '-')}"

    @property
    def text(self) -> str:
        """Write the option with its default, as `list` shows it.

        Example:
            >>> Keyword("warp", tuple, (64, 32)).text
            '--warp 64x32'
            >>> Keyword("warp", tuple).text, Keyword("m", int).text
            ('--warp AxB', '--m INT')
        """
        if self.kind is bool:
            return f"--no-{self.option[2:]}" if self.default else self.option
        if self.fields:
            return f"{self.option} {RECORD}"
        return f"{self.option} {self._form if self.default is None else by(self.default)}"

    def add_to(self, parser: Any, taken: frozenset[str]) -> None:
        """Add the keyword's option; if a general option has its name, it is called `--preset-NAME`.

        Args:
            parser: argparse's parser, or a group of one.
            taken: names of the general options.
        """
        option = f"--preset-{self.option[2:]}" if self.option in taken else self.option
        about = " ".join(filter(None, (self.about, "" if self.required else f"(default: {by(self.default)})")))
        about += f"; fields: {', '.join(field.name for field in self.fields)}" if self.fields else ""
        common: dict[str, Any] = {"dest": PREFIX + self.name, "default": argparse.SUPPRESS, "help": about}
        if self.kind is bool:
            parser.add_argument(option, action=argparse.BooleanOptionalAction, required=self.required, **common)
            return
        parser.add_argument(
            option,
            type=self.read,
            required=self.required,
            metavar="|".join(map(str, self.choices)) or self._form,
            **common,
        )

    @property
    def _form(self) -> str:
        """Describe how a value is written, for the help."""
        return RECORD if self.fields else "AxB" if self.kind is tuple else self.kind.__name__.upper()

    def read(self, text: str) -> Any:
        """Read a value from text.

        Raises:
            argparse.ArgumentTypeError: where the text is no value of the keyword's type.
        """
        if self.fields:
            return self._record(text)
        try:
            if self.kind is bool:
                return BOOLEANS[text]
            if self.kind is tuple:
                return tuple(self.element(word) for word in text.split("x"))
            value = self.kind(text)
        except (ValueError, KeyError):
            wanted = f"{KINDS[self.element]}s joined by x" if self.kind is tuple else KINDS[self.kind]
            raise argparse.ArgumentTypeError(f"{text!r} is no {wanted}") from None
        if self.choices and value not in self.choices:
            listed = ", ".join(str(choice) or '""' for choice in self.choices)
            raise argparse.ArgumentTypeError(f"{text!r} is none of {listed}")
        return value

    def _record(self, text: str) -> Any:
        """Read the fields of a record; those that are not named keep their defaults."""
        known = {field.name: field for field in self.fields}
        values: dict[str, Any] = {}
        for part in text.split(","):
            name, equals, value = part.strip().partition("=")
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"{name!r} is no field of {self.kind.__name__}: use {', '.join(known)}"
                )
            if not equals and known[name].kind is not bool:
                raise argparse.ArgumentTypeError(f"{name} has no value: write {name}={known[name]._form}")
            values[name] = known[name].read(value) if equals else True
        try:
            return self.kind(**values)
        except FireironError as error:
            raise argparse.ArgumentTypeError(error.message) from None


def keywords(function: Callable[..., Any], skip: int) -> tuple[Keyword, ...]:
    """List the keywords that can be given as text.

    Args:
        function: the preset.
        skip: number of leading parameters to leave out: the spec.
    """
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name that exists only while types are checked
        hints = {}
    found: list[Keyword] = []
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        keyword = _keyword(parameter, hints.get(parameter.name), _about(function, parameter.name))
        if keyword is not None:
            found.append(keyword)
    return tuple(found)


def _keyword(parameter: inspect.Parameter, hint: Any, about: str) -> Keyword | None:
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    either = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    hint = next((one for one in either if one not in (None, types.NoneType)), None)
    made = Keyword(parameter.name, str, default, required, about=about)
    if typing.get_origin(hint) is typing.Literal:
        values = typing.get_args(hint)
        return attrs.evolve(made, kind=type(values[0]), choices=values)
    kind: Any = typing.get_origin(hint) or hint or default.__class__
    if kind is tuple:
        inside = [arg for arg in typing.get_args(hint) if arg is not ...]
        element: Any = inside[0] if inside else default[0].__class__ if default else int
        return attrs.evolve(made, kind=tuple, element=element) if element in (int, float, str) else None
    if isinstance(kind, type) and attrs.has(kind):
        fields = keywords(kind, skip=0)
        return attrs.evolve(made, kind=kind, fields=fields) if fields else None
    return attrs.evolve(made, kind=kind) if kind in (int, float, str, bool) else None


def _about(function: Callable[..., Any], name: str) -> str:
    """Return a parameter's text in the docstring's Args."""
    for line in (inspect.getdoc(function) or "").splitlines():
        names, colon, text = line.strip().partition(": ")
        if colon and name in [word.strip() for word in names.split(",")]:
            return text.strip().rstrip(".")
    return ""
