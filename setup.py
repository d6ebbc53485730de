"""Everything stands in setup.cfg but the links of the README, which package indexes show without the repository.

FIREIRON_HOME is the address of the repository's files; where it is not set, links to files become plain text.
"""

import os
import re
from pathlib import Path

from setuptools import setup


def described(text: str, home: str) -> str:
    """Make the links of a page absolute, or drop them."""

    def one(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if "://" in target:
            return match[0]
        if not home:
            return "" if mark else words
        return f"{mark}[{words}]({home.rstrip('/')}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", one, text)


HERE = Path(__file__).parent
setup(
    long_description=described((HERE / "README.md").read_text(encoding="utf-8"), os.environ.get("FIREIRON_HOME", "")),
    long_description_content_type="text/markdown",
)
