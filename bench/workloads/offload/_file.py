"""A block in an unnamed file: where it lies, on what, and how it is written and read.

The folder is BENCH_OFFLOAD_DIR, else the temporary one. The file is never seen in it and is gone with the process. On the way is
one host buffer of whole pages, pinned for CUDA: the file is read into it in one go and then copied on, as a simple swapper does it.
Who reads the next block meanwhile hides the shorter of the two.

*direct* goes past the page cache (O_DIRECT), so that the disk is measured; whole pages are moved, the last one padded. Written
means that the disk has taken it, not that it would outlive a power cut. A file system in memory is refused, and one that cannot do
it too. *cached* goes through the page cache, where a block that was just written is read from RAM.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import tempfile
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bench.declare import Unavailable, Unsupported, torch_dtype
from bench.workloads.offload._place import OffloadSpec

if TYPE_CHECKING:
    import torch

FOLDER_VARIABLE = "BENCH_OFFLOAD_DIR"
IN_MEMORY = ("tmpfs", "ramfs")
PAGE_BYTES = mmap.PAGESIZE
ADVICE = f"set {FOLDER_VARIABLE} to a folder on a disk with some room"


class FilePlace:
    """Implements `Place`. Raises Unavailable where the folder takes no such file, Unsupported where it is no disk but must be."""

    def __init__(self, spec: OffloadSpec, *, direct: bool) -> None:
        self._folder = Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir())
        self._direct = direct
        self._bytes = -(-spec.bytes // PAGE_BYTES) * PAGE_BYTES if direct else spec.bytes
        self._file = self._opened()
        weakref.finalize(self, self._file.close)
        host = _whole_pages(self._bytes, pinned=spec.device == "cuda")
        self._block = host[: spec.bytes].view(torch_dtype(spec.dtype))
        self._memory = memoryview((ctypes.c_char * self._bytes).from_address(host.data_ptr())).cast("B")

    def store(self, block: torch.Tensor) -> None:
        self._block.copy_(block)
        done = 0
        while done < self._bytes:
            done += os.pwritev(self._file.fileno(), [self._memory[done:]], done)

    def load(self, out: torch.Tensor) -> None:
        done = 0
        while done < self._bytes:
            read = os.preadv(self._file.fileno(), [self._memory[done:]], done)
            if not read:
                raise OSError(f"the file in {self._folder} ends at byte {done} of {self._bytes}")
            done += read
        out.copy_(self._block)  # blocking, since the next call reads into the same buffer

    def describe(self) -> str:
        kind, device = mounted_at(self._folder)
        return f"a file on {kind} ({device}), {'past' if self._direct else 'through'} the page cache"

    def _opened(self) -> BinaryIO:
        """The file with all its room, so that a full disk is told before anything is measured."""
        try:
            kind, _ = mounted_at(self._folder)
            if self._direct and kind in IN_MEMORY:
                raise Unsupported(f"{self._folder} is a {kind}, which is memory and no disk; {ADVICE}")
            with ExitStack() as until_whole:
                file: BinaryIO = until_whole.enter_context(tempfile.TemporaryFile(dir=self._folder, buffering=0))
                os.posix_fallocate(file.fileno(), 0, self._bytes)
                if self._direct:
                    _go_past_cache(file, self._folder)
                until_whole.pop_all()
        except OSError as error:
            raise Unavailable(f"{self._folder} takes no file of {self._bytes} bytes: {error.strerror}; {ADVICE}") from error
        return file


def mounted_at(folder: Path) -> tuple[str, str]:
    """Kind and device of the file system that holds `folder`. Raises FileNotFoundError where there is no such folder."""
    import psutil

    place = folder.resolve(strict=True)
    mounts = [part for part in psutil.disk_partitions(all=True) if place.is_relative_to(part.mountpoint)]
    if not mounts:
        return "an unknown file system", "no device told"
    # Of several at one point the last hides the others.
    nearest = max(reversed(mounts), key=lambda part: len(part.mountpoint))
    return nearest.fstype, nearest.device


def _go_past_cache(file: BinaryIO, folder: Path) -> None:
    flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    try:
        fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unsupported(f"the file system of {folder} has no direct input and output; {ADVICE}") from error
        raise


def _whole_pages(size: int, *, pinned: bool) -> torch.Tensor:
    """Bytes that begin at a page, as O_DIRECT asks for."""
    import torch

    raw = torch.zeros(size + PAGE_BYTES, dtype=torch.uint8, pin_memory=pinned)
    return raw[-raw.data_ptr() % PAGE_BYTES :][:size]
