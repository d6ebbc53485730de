"""Layer 6: executes kernel IR in NumPy; finds races, bad addresses, missing values and deadlocks; counts traffic."""

from fireiron.kernel.analysis.traffic import Traffic
from fireiron.simulate.cost import cost
from fireiron.simulate.report import Report, Site
from fireiron.simulate.run import simulate

__all__ = ["Report", "Site", "Traffic", "cost", "simulate"]
