"""What users meet: schedules with every chain method and verb, strategies, presets' helpers, the command line."""
