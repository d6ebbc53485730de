"""The user interface: chains and their methods, verbs of schedules, strategies, calls with arrays, the command line."""
