"""What a library's own operator says of the tensors that fully_shard makes is a refusal, in torch's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.catalogue import load_catalogue
from bench.records import Status
from bench.worker.refusals import classify


@pytest.mark.parametrize("way", ["fsdp2", "fsdp2_root_unit", "fsdp2_kept"])
def test_an_operator_that_does_not_know_sharded_tensors_is_unsupported(way: str, tmp_path: Path) -> None:
    import torch
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    refuses = load_catalogue().implementation("sharding", way).refuses
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        shared = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Replicate()])
        with pytest.raises(RuntimeError) as raised:
            torch.ops.aten.add_.Tensor(shared, torch.ones(4))
    finally:
        distributed.destroy_process_group()
    failure = classify(raised.value, refuses=refuses, building=False)
    assert failure.status is Status.UNSUPPORTED
    assert "DTensor" in str(failure.reason)
