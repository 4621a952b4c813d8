"""Folders that say whose they are: an owner holds a file in its own locked for as long as it lives, and what dead ones left is swept.

Who lives is told by the lock: it ends with its process, however that ends. A process number would not do, since somebody else may have
it by then, and in another container it says nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

OWNER = "owner"
"""The file that a living owner holds locked. Without it a folder is nobody's to sweep: it is kept for a person to look at."""


def claim(folder: Path, told: bytes = b"") -> int:
    """Makes the folder this process's own and returns the descriptor that holds the lock. `told` is for a person to read. Raises OSError.

    The file is locked before it has its name, so that no sweep ever finds one that is not locked yet.
    """
    unnamed = folder / f"{OWNER}.new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, told)
    unnamed.rename(folder / OWNER)
    return descriptor


def sweep(place: Path, prefix: str) -> list[Path]:
    """Removes folders whose owner is dead and returns them; what is not ours to read is left alone."""
    swept = []
    for folder in sorted(place.glob(f"{prefix}*")):
        try:
            descriptor = os.open(folder / OWNER, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, being made, or not ours to read
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        except OSError:
            continue  # its owner lives
        finally:
            os.close(descriptor)
    return swept
