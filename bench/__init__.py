"""The bench runner: `python -m bench`, or `fireiron bench`; from Python, `measure(cases, subjects)`.

Each result is checked against f64 before it is timed. All subjects are timed in one process, round by round, with the
L2 flushed or with buffers that rotate.
"""

from .cases import Case
from .measure import Options, measure
from .results import Result
from .suites import SUITES, random100

__all__ = ["SUITES", "Case", "Options", "Result", "measure", "random100"]
