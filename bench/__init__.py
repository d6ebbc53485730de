"""The bench runner: `python -m bench`, or `fireiron bench`; from Python, `measure(cases, subjects)`.

A result is believed because it was checked against f64 before it was timed, in one process with its peers, round by
round, with the L2 flushed or buffers rotated.
"""

from .cases import Case
from .measure import Options, measure
from .results import Result
from .suites import SUITES, random100

__all__ = ["SUITES", "Case", "Options", "Result", "measure", "random100"]
