"""Presets, one file per architecture; imported as `fireiron.schedules`."""

from fireiron import best

__all__ = ["best"]
