"""Blocks to memory and to files and back: every byte, the right place, and clear words where there is none."""

from __future__ import annotations

import dataclasses
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.declare import Unavailable, Unsupported
from bench.records import Case, Pass, Reply, Status
from bench.workloads.offload import WORKLOAD, OffloadSpec
from bench.workloads.offload._file import FilePlace, mounted_at
from bench.workloads.offload._place import to_device
from tests.factories import case
from tests.worker.trials import answer

SIZE = 50_002
SPEC = OffloadSpec(SIZE, "to_host", "bf16", "cpu")
FILES = ("file_direct", "file_cached")


def offload(name: str, direction: str = "to_device", **changes: Any) -> Case:
    params = {"bytes": SIZE, "direction": direction, **changes.pop("params", {})}
    made = case(name, params=params, **{"dtype": "bf16", **changes})
    return dataclasses.replace(made, workload="offload", subject={"offload": name})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files go; the tests of direct files need it to be no tmpfs."""
    monkeypatch.setenv("BENCH_OFFLOAD_DIR", str(tmp_path))
    return tmp_path


def disk_or_skip(folder: Path) -> None:
    try:
        FilePlace(SPEC, direct=True)
    except Unsupported as refusal:
        pytest.skip(str(refusal))


def block(seed: int) -> torch.Tensor:
    return WORKLOAD.make_inputs(SPEC, "cpu", torch.Generator().manual_seed(seed))["block"]


@pytest.mark.parametrize("direction", ["to_device", "to_host"])
@pytest.mark.parametrize("name", ["pageable", "file_direct", "file_cached"])
def test_every_byte_arrives_and_the_row_says_what_the_place_is(tmp_path: Path, name: str, direction: str) -> None:
    if name == "file_direct":
        disk_or_skip(tmp_path)
    reply = answer(tmp_path, offload(name, direction))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved"
    assert {("out", "small"), ("out", "measured"), ("every_byte", "small")} <= {(c.tensor, c.at) for c in reply.checks}
    (said,) = {check.detail for check in reply.checks if check.tensor == "every_byte"}
    words = {"pageable": "pageable host memory", "file_direct": ", past the page cache", "file_cached": ", through the page cache"}
    assert words[name] in str(said)
    assert reply.cost is not None
    assert reply.cost.bytes == SIZE


def test_pinned_memory_is_refused_where_no_device_can_use_it(tmp_path: Path) -> None:
    reply = answer(tmp_path, offload("pinned"))
    assert (reply.status, reply.reason) == (Status.UNSUPPORTED, "pinned runs on cuda, not on cpu")


@pytest.mark.parametrize("direct", [True, False])
def test_what_is_loaded_is_what_the_file_holds(tmp_path: Path, direct: bool) -> None:
    if direct:
        disk_or_skip(tmp_path)
    place = FilePlace(SPEC, direct=direct)
    stored = block(1)
    place.store(stored)
    with open(f"/proc/self/fd/{place._file.fileno()}", "r+b") as file:
        raw = file.read()
        assert raw[:SIZE] == bytes(stored.view(torch.uint8).tolist())
        assert len(raw) == (-(-SIZE // os.sysconf("SC_PAGESIZE")) * os.sysconf("SC_PAGESIZE") if direct else SIZE)
        file.seek(4)
        file.write(b"\x00\x40")  # 2.0 in bf16
    out = torch.empty_like(stored)
    place.load(out)
    assert float(out[2]) == 2.0
    assert out[3:].equal(stored[3:])


def test_a_direct_file_leaves_nothing_in_the_page_cache_flags_and_no_name_in_the_folder(tmp_path: Path) -> None:
    disk_or_skip(tmp_path)
    import fcntl

    place = FilePlace(SPEC, direct=True)
    assert fcntl.fcntl(place._file.fileno(), fcntl.F_GETFL) & os.O_DIRECT
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_closed_with_its_place(tmp_path: Path) -> None:
    place = FilePlace(SPEC, direct=False)
    file = place._file
    del place
    assert file.closed


def refused(reply: Reply, status: Status) -> str:
    assert reply.status is status, f"{reply.reason}\n{reply.traceback}"
    assert "set BENCH_OFFLOAD_DIR to a folder on a disk with some room" in str(reply.reason)
    return str(reply.reason)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("where", "why"), [("/proc", "/proc takes no file of"), ("/no/such/folder", "No such file or directory")])
def test_a_folder_that_takes_no_file_is_said_to_be_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str, why: str
) -> None:
    monkeypatch.setenv("BENCH_OFFLOAD_DIR", where)
    assert why in refused(answer(tmp_path, offload(name)), Status.UNAVAILABLE)


@pytest.fixture
def small_files() -> Iterator[int]:
    """A limit on the size of a file, which the kernel tells like a full disk: by an error of the call."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = 2**21
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", FILES)
def test_a_block_that_the_disk_does_not_take_is_said_so_before_anything_is_measured(
    tmp_path: Path, small_files: int, name: str
) -> None:
    if name == "file_direct":
        disk_or_skip(tmp_path)
    reply = answer(tmp_path, offload(name, params={"bytes": 2 * small_files}))
    assert "File too large" in refused(reply, Status.UNAVAILABLE)
    assert reply.phase == "build"


def test_a_full_disk_is_told_by_its_folder(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=rf"{tmp_path} takes no file of {2**50} bytes: .*; set BENCH_OFFLOAD_DIR"):
        FilePlace(dataclasses.replace(SPEC, bytes=2**50), direct=False)


def test_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or mounted_at(shared)[0] != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    monkeypatch.setenv("BENCH_OFFLOAD_DIR", str(shared))
    assert "/dev/shm is a tmpfs, which is memory and no disk" in refused(
        answer(tmp_path, offload("file_direct")), Status.UNSUPPORTED
    )
    assert answer(tmp_path, offload("file_cached")).status is Status.OK  # it promises no disk


def test_the_mount_that_holds_a_folder_is_the_nearest_one() -> None:
    assert mounted_at(Path("/proc/self"))[0] == "proc"
    assert mounted_at(Path("/"))[0] != "proc"


WRONG = {
    "keeps_a_reference": "        def store(self, block):\n            self.kept = block\n",
    "loses_the_end": "        def store(self, block):\n            self.kept = block.clone()\n            self.kept[-1] = 0.0\n",
    "stores_once": (
        "        def store(self, block):\n            if not hasattr(self, 'kept'):\n                self.kept = block.clone()\n"
    ),
}


@pytest.mark.parametrize("direction", ["to_device", "to_host"])
@pytest.mark.parametrize("name", WRONG)
def test_what_brings_back_something_else_is_incorrect(tmp_path: Path, name: str, direction: str) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(
        'from bench.declare import implementation\n\n\n@implementation(workload="offload")\n'
        f"def {name}(spec):\n    class Place:\n{WRONG[name]}"
        "        def load(self, out):\n            out.copy_(self.kept)\n"
        "        def describe(self):\n            return 'a plug-in'\n"
        "    return Place()\n"
    )
    reply = answer(tmp_path, offload(name, direction), plugins=(path,))
    assert reply.status is Status.INCORRECT, reply.reason
    assert "a plug-in" in str(reply.reason) or "out (small)" in str(reply.reason)


def test_a_block_is_stored_again_only_after_it_was_written_to() -> None:
    stored = []

    class Counting:
        def store(self, block: torch.Tensor) -> None:
            stored.append(block.clone())

        def load(self, out: torch.Tensor) -> None:
            out.copy_(stored[-1])

        def describe(self) -> str:
            return "a list"

    move = to_device(Counting())
    inputs = {"block": block(1)}
    assert move.prepare is not None
    for _ in range(3):
        move.prepare(1)
        move.forward(inputs)
    assert len(stored) == 1
    WORKLOAD.redraw(SPEC, inputs, torch.Generator().manual_seed(2))
    move.prepare(1)
    assert len(stored) == 2
    assert move.forward(inputs).equal(inputs["block"])


def test_bytes_that_hold_no_whole_number_of_elements_are_a_mistake_in_words() -> None:
    with pytest.raises(ValueError, match="bytes must be a multiple of 2"):
        WORKLOAD.spec(offload("pageable", params={"bytes": 4097}))


def test_each_byte_counts_once() -> None:
    assert WORKLOAD.cost(SPEC, Pass.FORWARD).bytes == SIZE


@pytest.mark.gpu
@pytest.mark.parametrize("direction", ["to_device", "to_host"])
@pytest.mark.parametrize("name", ["pinned", "pageable", "file_direct", "file_cached"])
def test_a_gpus_block_comes_over_the_kind_of_memory_that_is_promised(tmp_path: Path, name: str, direction: str) -> None:
    if name == "file_direct":
        disk_or_skip(tmp_path)
    reply = answer(tmp_path, offload(name, direction, device="cuda", cache="cold"))
    assert reply.status is Status.OK, f"{reply.reason}\n{reply.traceback}"
    assert reply.proof is not None
    assert reply.proof.verdict == "proved", reply.proof.detail
