"""Modules that are loaded at their first use, so that `import fireiron` loads few modules."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stand for a module, or for an object in a module, until an attribute is read.

    For type checkers, an import of the same module stands beside the `Later`, below `if TYPE_CHECKING`.

    Args:
        module: the module's full name.
        name: name of the object in the module; empty for the module itself.

    Example:
        >>> text = Later("fireiron.base.text")
        >>> text.count(2, "warp")
        '2 warps'
    """

    def __init__(self, module: str, name: str = "") -> None:
        self._module, self._name, self._loaded = module, name, None

    def load(self) -> Any:
        """Load the module, and return the module or the object."""
        if self._loaded is None:
            self._loaded = import_module(self._module)
        return getattr(self._loaded, self._name) if self._name else self._loaded

    def __getattr__(self, attribute: str) -> Any:
        if self._loaded is None:
            self._loaded = import_module(self._module)
        return getattr(getattr(self._loaded, self._name) if self._name else self._loaded, attribute)
