"""Presets, one file per architecture; imported as `fireiron.schedules`."""
