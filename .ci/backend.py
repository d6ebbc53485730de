"""The build backend: setuptools, with the links of the README as package indexes need them.

FIREIRON_HOME is the address of the repository's files; where it is not set, links to files become plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import get_requires_for_build_editable as get_requires_for_build_editable
from setuptools.build_meta import get_requires_for_build_sdist as get_requires_for_build_sdist
from setuptools.build_meta import get_requires_for_build_wheel as get_requires_for_build_wheel

DESCRIPTION = Path("build/description.md")  # which setup.cfg names


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


def _write() -> None:
    DESCRIPTION.parent.mkdir(exist_ok=True)
    readme = Path("README.md").read_text(encoding="utf-8")
    DESCRIPTION.write_text(described(readme, os.environ.get("FIREIRON_HOME", "")), encoding="utf-8")


def build_wheel(*arguments: Any, **options: Any) -> str:
    """Build a wheel."""
    _write()
    return build_meta.build_wheel(*arguments, **options)


def build_sdist(*arguments: Any, **options: Any) -> str:
    """Build a source distribution."""
    _write()
    return build_meta.build_sdist(*arguments, **options)


def build_editable(*arguments: Any, **options: Any) -> str:
    """Build a wheel that points here."""
    _write()
    return build_meta.build_editable(*arguments, **options)


def prepare_metadata_for_build_wheel(*arguments: Any, **options: Any) -> str:
    """Write the metadata of a wheel."""
    _write()
    return build_meta.prepare_metadata_for_build_wheel(*arguments, **options)


def prepare_metadata_for_build_editable(*arguments: Any, **options: Any) -> str:
    """Write the metadata of a wheel that points here."""
    _write()
    return build_meta.prepare_metadata_for_build_editable(*arguments, **options)
