"""Links: where a chain method was written, kept cheaply and resolved to source text only when an error prints."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from types import CodeType, FrameType
from typing import Final

import attrs

from fireiron.base.place import Place, excerpts, find_place

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _preset_folder() -> str:
    """Return the folder of presets: a link in the package, or beside it where a checkout made no link."""
    inside = os.path.join(_PACKAGE, "schedules")
    return os.path.realpath(inside if os.path.isdir(inside) else os.path.join(_PACKAGE, os.pardir, "schedules"))


PRESETS: Final = _preset_folder()


class _Kind(IntEnum):
    """Say whose code a file holds; no member is 0, so that a dict lookup can be chained with `or`."""

    USER = 1
    PRESET = 2
    INTERNAL = 3


# From a code object's filename to whose it is: a pure function's cache, kept because `realpath` costs 10 us.
_KINDS: Final[dict[str, _Kind]] = {}

# Python files that may stand between a chain method and its caller: cached properties, context managers, records.
_BETWEEN: Final = frozenset(
    os.path.realpath(file) for file in (functools.__file__, contextlib.__file__, attrs.evolve.__code__.co_filename)
)

_CodePosition = tuple[CodeType, int]


@attrs.frozen(eq=False, repr=False)
class Link:
    """Remember where a chain method was called; where a preset called it, also who called the preset.

    A link compares by identity. It pickles and copies as plain text and numbers, never as a code object.
    """

    _place: _CodePosition | Place
    _caller: _CodePosition | Place | None = None
    _function: str = ""

    @property
    def place(self) -> Place:
        """Return the source text of the call: the user's own, or the preset's where a preset made it."""
        return _resolve(self._place)

    @property
    def called_from(self) -> Place | None:
        """Return the user's place that called the preset, None where no preset is involved."""
        return None if self._caller is None else _resolve(self._caller)

    @property
    def in_preset(self) -> bool:
        """Return whether a preset made the call."""
        place = self._place
        return _kind_of(place.filename if isinstance(place, Place) else place[0].co_filename) is _Kind.PRESET

    @property
    def underlined(self) -> str:
        """Return the source text above the first carets, empty where none are printed."""
        return self.place.underlined

    @property
    def function(self) -> str:
        """Return the name of the function that holds the call, empty for modules, cells and lambdas."""
        name = self._function if isinstance(self._place, Place) else self._place[0].co_name
        return name if name.isidentifier() else ""

    def where(self) -> str:
        """Return `file:line:column` of the call, with as much of it as is known."""
        return self.place.where()

    def render(self) -> str:
        """Return the place as printed in errors: an arrow, the line, its carets; then the same for the caller."""
        return "\n".join(excerpts(self.place, self.called_from))

    def __repr__(self) -> str:
        return f"Link({self.where()})"

    def __reduce__(self) -> tuple[Callable[..., "Link"], tuple[Place, Place | None, str]]:
        # The function names the kernel, and with it the digest.
        return Link, (self.place, self.called_from, self.function)


def here() -> Link:
    """Capture the nearest call outside fireiron, in about a microsecond.

    Frames inside the package are skipped, so chain methods may call each other. A frame in the preset folder becomes
    the link's place, and the first one outside fireiron and presets becomes `called_from`.
    """
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    nearest = (frame.f_code, frame.f_lasti)
    preset: _CodePosition | None = None
    while frame is not None:
        code = frame.f_code
        kind = _KINDS.get(code.co_filename) or _classify(code.co_filename)
        if kind == 1:  # _Kind.USER: a plain number costs a fifth of the enum's attribute
            position = (code, frame.f_lasti)
            return Link(position) if preset is None else Link(preset, position)
        if kind == 2 and preset is None:  # _Kind.PRESET
            preset = (code, frame.f_lasti)
        frame = frame.f_back
    # Called from nobody outside: a preset run as a script, or fireiron's own command line.
    return Link(preset or nearest)


def _classify(filename: str) -> _Kind:
    """Decide and remember whose code a file holds."""
    kind = _KINDS[filename] = _kind_of(filename)
    return kind


def _kind_of(filename: str) -> _Kind:
    """Decide whose code a file holds.

    Example:
        >>> _kind_of("<stdin>").name, _kind_of("<frozen runpy>").name, _kind_of(__file__).name
        ('USER', 'INTERNAL', 'INTERNAL')
    """
    # Import machinery and methods that attrs generated have no file, and no user wrote them.
    if filename.startswith(("<frozen ", "<attrs generated ")):
        return _Kind.INTERNAL
    if filename.startswith("<"):
        return _Kind.USER
    path = os.path.realpath(filename)
    if path.startswith(PRESETS + os.sep):
        return _Kind.PRESET
    folder, name = path.split(os.sep)[-2:]
    if _in_torch(path):  # the dispatcher, which calls the functions of torch's operators
        return _Kind.INTERNAL
    if name == "fireiron" or folder == "fireiron.exe":  # what pip writes for the command; the latter is an archive
        return _Kind.INTERNAL
    return _Kind.INTERNAL if path.startswith(_PACKAGE + os.sep) or path in _BETWEEN else _Kind.USER


def _in_torch(path: str) -> bool:
    """Say whether a file belongs to torch, if torch is imported."""
    file = getattr(sys.modules.get("torch"), "__file__", None)
    return file is not None and path.startswith(os.path.dirname(os.path.realpath(file)) + os.sep)


def _resolve(place: _CodePosition | Place) -> Place:
    """Return a place as text, reading the source if that has not been done."""
    return place if isinstance(place, Place) else find_place(*place)
