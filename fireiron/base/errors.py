"""Errors with a stable code, the place in the user's chain, the path in the tree, and a fix."""

from collections.abc import Callable
from typing import Any, Literal, Self

import attrs

from fireiron.base.link import Link

Severity = Literal["error", "warning", "note"]
SHORT = 80  # characters of a message in a repr


class FireironError(Exception):
    """Say what was asked and which fact fails, in the form that tests compare whole.

    Args:
        code: stable name of the mistake, in words with hyphens.
        message: what was asked, which fact fails, with names and numbers.
        fix: what to write instead.
        link: where the failing chain method was called.
        path: where in the decomposition tree.
        other: where a second chain method was called that contradicts the first.

    Example:
        >>> print(SpecError("dtype-unknown", "A has dtype f7", fix="use F16 or F32", path="MatMul 8x8x8"))
        SpecError[dtype-unknown]: A has dtype f7
        at:  MatMul 8x8x8
        fix: use F16 or F32
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        fix: str = "",
        link: Link | None = None,
        path: str = "",
        other: Link | None = None,
    ) -> None:
        # The positional arguments are BaseException's own `args`; with `__dict__` they are also what pickle keeps.
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.fix = fix
        self.link = link
        self.path = path
        self.other = other

    def located(self, link: Link | None = None, path: str = "") -> Self:
        """Return a copy with link and path filled in where missing, for layers that raise without knowing them.

        Example:
            >>> SpecError("k-zero", "K is 0").located(path="MatMul 8x8x0").located(path="an outer step").path
            'MatMul 8x8x0'
        """
        copy = type(self)(
            self.code,
            self.message,
            fix=self.fix,
            link=link if self.link is None else self.link,
            path=self.path or path,
            other=self.other,
        )
        copy.__cause__ = self.__cause__
        return copy.with_traceback(self.__traceback__)

    @property
    def underlined(self) -> str:
        """Return the source text above the carets, empty where none are printed."""
        return "" if self.link is None else self.link.underlined

    @property
    def _render_traceback_(self) -> Callable[[], list[str]]:
        """Show the message without a traceback in a notebook's cell; the message already shows the link.

        An error without a link has the usual traceback.
        """
        if self.link is None:
            raise AttributeError("_render_traceback_")
        return str(self).splitlines

    def __str__(self) -> str:
        return _render(type(self).__name__, self.code, self.message, self.link, self.path, self.fix, self.other)


class SpecError(FireironError):
    """Report a spec or tensor with invalid or contradicting properties."""


class LayoutError(FireironError):
    """Report a layout operation whose precondition fails."""


class DecompositionError(FireironError):
    """Report a chain method that does not apply to the spec it was given."""


class CheckError(FireironError):
    """Report a finished schedule that exceeds a limit of its architecture."""


class CompileError(FireironError):
    """Report CUDA source that the compiler refuses, or a compiled kernel that breaks a promise."""


class CallError(FireironError):
    """Report arguments that a kernel cannot be launched with."""


class SimulationError(FireironError):
    """Report a race, a bad address or a wrong value found by running on the simulator."""


class UsageError(FireironError):
    """Report a function of the interface called in a way that it does not support."""


@attrs.frozen
class Finding:
    """Hold one result of a check that collects instead of raising at the first mistake.

    Args:
        code: stable name of the finding, in words with hyphens.
        message: what was asked, which fact fails, with names and numbers.
        severity: "error", "warning" or "note".
        fix: what to write instead.
        link: where the chain method was called; ignored by equality.
        path: where in the decomposition tree.

    Example:
        >>> print(Finding("idle-threads", "64 of 256 threads have no tile", "warning"))
        warning[idle-threads]: 64 of 256 threads have no tile
    """

    code: str
    message: str
    severity: Severity = "error"
    fix: str = ""
    link: Link | None = attrs.field(default=None, eq=False, repr=False)
    path: str = ""

    def error(self, family: type[FireironError] = CheckError) -> FireironError:
        """Return the finding as an error of the given family, to raise.

        Example:
            >>> print(Finding("sh-full", "A_sh needs 256 KiB").error())
            CheckError[sh-full]: A_sh needs 256 KiB
        """
        return family(self.code, self.message, fix=self.fix, link=self.link, path=self.path)

    def __repr__(self) -> str:
        cut = self.message if len(self.message) <= SHORT else f"{self.message[:SHORT]}..."
        return f"<{self.severity} {self.code}: {cut}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        return _render(self.severity, self.code, self.message, self.link, self.path, self.fix)


def _render(
    family: str, code: str, message: str, link: Link | None, path: str, fix: str, other: Link | None = None
) -> str:
    """Return the printed form; parts that are missing are left out."""
    lines = [f"{family}[{code}]: {message}"]
    if link is not None:
        lines.append(link.render())
    if other is not None:
        lines.append(other.render())
    # Further lines of a fix stand under its first one.
    lines += [f"{label:<5}{text}".replace("\n", "\n     ") for label, text in (("at:", path), ("fix:", fix)) if text]
    return "\n".join(lines)
