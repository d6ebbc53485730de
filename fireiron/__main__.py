"""Run the command line as `python -m fireiron`."""

from fireiron.front.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
