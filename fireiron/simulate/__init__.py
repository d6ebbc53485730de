"""Layer 6: runs kernel IR in NumPy, with races, bad addresses and missing values found, and traffic counted."""

from fireiron.simulate.cost import cost
from fireiron.simulate.report import Report, Site
from fireiron.simulate.run import simulate
from fireiron.simulate.traffic import Traffic

__all__ = ["Report", "Site", "Traffic", "cost", "simulate"]
