"""Layer 8: what a schedule must compute, with bounds, data made for it, and the comparison with what a kernel wrote."""
