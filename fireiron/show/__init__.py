"""Show schedules: trees, pictures, differences between two schedules, and explanations of links."""
