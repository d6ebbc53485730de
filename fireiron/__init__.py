"""Schedule GPU kernels as method chains: a checked tree, CUDA a person can read, a simulation and a timed kernel."""

from fireiron.base.presets_path import presets_path

__version__ = "0.1.0"

# Windows checkouts hold `fireiron/schedules` as a text file instead of a link.
__path__.extend(presets_path(__path__[0]))
