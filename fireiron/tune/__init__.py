"""Layer 9: find good schedules: search spaces, the search, records of what was measured, and the choice among them."""
