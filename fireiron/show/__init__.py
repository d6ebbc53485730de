"""Show schedules: their trees, what distinguishes two of them, and what each link does."""
