"""Which file system a path lies on, because SQLite's write-ahead log is unsafe where several machines share one."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNT_TABLE = Path("/proc/self/mountinfo")

_SHARED = frozenset((
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "openafs", "coda", "9p", "virtiofs", "vboxsf", "vmhgfs",
    "prl_fs", "lustre", "beegfs", "gpfs", "mmfs", "ceph", "glusterfs", "gfs", "gfs2", "ocfs2", "orangefs", "pvfs2", "panfs",
    "wekafs", "quobyte", "daos", "acfs", "cvfs", "stornext", "davfs",
))  # fmt: skip


def _unescaped(text: str) -> str:
    """The kernel writes space, tab, newline and backslash of a mount point as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def file_system_of(path: Path, mount_table: str) -> str | None:
    """Type of the file system on which the absolute `path` lies, by a table like /proc/self/mountinfo; None if unknown."""
    target = os.fspath(path)
    best_length, found = -1, None
    for line in mount_table.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5 or not after:
            continue
        point = _unescaped(fields[4])
        inside = target == point or target.startswith(point if point.endswith("/") else point + "/")
        # A later line of the same length is mounted over the earlier one.
        if inside and len(point) >= best_length:
            best_length, found = len(point), after.split(" ")[0]
    return found


def shared_file_system(path: Path, mount_table: str | None = None) -> str | None:
    """The type of `path`'s file system if other machines may write to it too, else None.

    A user-space file system (FUSE) counts as shared, since what is behind it cannot be seen.
    """
    if mount_table is None:
        try:
            mount_table = MOUNT_TABLE.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    found = file_system_of(path, mount_table)
    if found is None:
        return None
    return found if found in _SHARED or found == "fuse" or found.startswith("fuse.") else None
