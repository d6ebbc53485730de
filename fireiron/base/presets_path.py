"""Find the presets where git could not make a symlink.

`fireiron/schedules` is a link to the `schedules` folder beside the package. Where git cannot make links (Windows by
default) it writes a text file that holds the link's target instead, and Python finds no package there.
"""

from __future__ import annotations

import os


def presets_path(package: str) -> tuple[str, ...]:
    """List the folders to append to the package's `__path__` so that `fireiron.schedules` is found.

    Args:
        package: the folder of the `fireiron` package.

    Example:
        A checkout with links, and an installed wheel, need nothing:

        >>> import fireiron
        >>> presets_path(fireiron.__path__[0])
        ()
    """
    link = os.path.join(package, "schedules")
    if not os.path.isfile(link):
        return ()
    with open(link, encoding="utf-8") as file:
        target = os.path.normpath(os.path.join(package, file.read().strip()))
    return (os.path.dirname(target),) if os.path.isdir(target) else ()
