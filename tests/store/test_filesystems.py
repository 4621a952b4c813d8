"""Which mounts are shared between machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.store import Store, filesystems
from bench.store.filesystems import file_system_of, shared_file_system

TABLE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:27 / /home rw,relatime shared:5 - nfs4 server:/home rw,vers=4.2,addr=10.0.0.1
31 30 0:28 / /home/ann/local\\040disk rw - xfs /dev/sdb rw
32 27 0:29 / /scratch rw - lustre mds@tcp:/scratch rw
33 27 0:30 / /mnt/fuse rw - fuse.sshfs ann@host: rw,user_id=0
34 27 0:31 / /mnt/usb rw - fuseblk /dev/sdc1 rw
35 27 0:32 / /over rw - ext4 /dev/sdd rw
36 35 0:33 / /over rw - cifs //server/share rw
37 27 0:34 / /host rw - 9p host rw
not a line of the table
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tmp/a", None),
        ("/home/ann/bench.db", "nfs4"),
        ("/home", "nfs4"),
        ("/homework/bench.db", None),
        ("/home/ann/local disk/results", None),
        ("/scratch/x", "lustre"),
        ("/mnt/fuse/x", "fuse.sshfs"),
        ("/mnt/usb/x", None),
        ("/over/x", "cifs"),
        ("/host/x", "9p"),
    ],
)
def test_a_mount_shared_between_machines_is_recognised(path: str, expected: str | None) -> None:
    assert shared_file_system(Path(path), TABLE) == expected


@pytest.mark.parametrize("kind", ["nfs", "cifs", "smb3", "beegfs", "gpfs", "ceph", "virtiofs", "afs", "fuse.glusterfs"])
def test_every_network_file_system_counts(kind: str) -> None:
    assert shared_file_system(Path("/data/x"), f"1 0 0:1 / /data rw - {kind} somewhere rw") == kind


def test_no_mount_table_means_a_local_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(filesystems, "MOUNT_TABLE", tmp_path / "absent")
    assert shared_file_system(tmp_path) is None
    assert file_system_of(tmp_path, "") is None


@pytest.mark.parametrize(("kind", "mode", "noticed"), [("nfs4", "delete", True), ("ext4", "wal", False)])
def test_a_database_on_a_network_file_system_has_no_write_ahead_log_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, mode: str, noticed: bool
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path} rw - {kind} somewhere rw\n")
    monkeypatch.setattr(filesystems, "MOUNT_TABLE", table)
    with Store.open(tmp_path / "bench.db") as store:
        with store.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == mode
        assert [notice for notice in store.notices if "journal_mode=DELETE because" in notice and kind in notice] == store.notices
        assert bool(store.notices) is noticed


def test_a_write_ahead_log_is_left_behind_when_a_database_moves_to_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "bench.db"):
        pass
    table = tmp_path / "mountinfo"
    table.write_text(f"2 1 0:2 / {tmp_path} rw - nfs somewhere rw\n")
    monkeypatch.setattr(filesystems, "MOUNT_TABLE", table)
    with Store.open(tmp_path / "bench.db") as store, store.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
