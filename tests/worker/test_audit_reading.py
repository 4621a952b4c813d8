"""The parts of a probe, each on real modules, tensors and profiles."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn

from bench.audited import Ended
from bench.probing import read_reports
from bench.worker.audit.attention_kinds import kind_of_kernel, kind_of_operator
from bench.worker.audit.batches import look_at
from bench.worker.audit.counting import Counting
from bench.worker.audit.guard import Notes
from bench.worker.audit.marks import Marks
from bench.worker.audit.model import quantized
from bench.worker.audit.optimizers import describe_optimizers
from bench.worker.audit.profiled import liger_pieces
from bench.worker.audit.profiling import Profiling, _may_detach
from bench.worker.audit.report import Report, nothing_yet
from bench.worker.audit.scene import Scene, find_scene
from tests.worker.audit_scripts.bare import Decoder


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64}
    return LlamaForCausalLM(LlamaConfig(**sizes))


def scene_of(model: nn.Module) -> Scene:
    found = find_scene(model.parameters(), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::_scaled_dot_product_flash_attention_backward", "sdpa_flash"),
        ("aten::_scaled_dot_product_efficient_attention", "sdpa_efficient"),
        ("aten::_scaled_dot_product_cudnn_attention", "sdpa_cudnn"),
        ("aten::_scaled_dot_product_attention_math", "sdpa_math"),
        ("flash_attn::_flash_attn_varlen_forward", "flash_attn2"),
        ("FlashAttnFuncBackward", "flash_attn2"),
        ("flash_attn_3::fwd", "flash_attn3"),
        ("aten::scaled_dot_product_attention", None),
        ("aten::bmm", None),
    ],
)
def test_operators_tell_how_attention_was_computed(name: str, kind: str | None) -> None:
    assert kind_of_operator(name) == kind


def test_kernels_of_the_package_and_of_torch_are_not_mixed_up() -> None:
    assert kind_of_kernel("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>") == "sdpa_flash"
    assert kind_of_kernel("void flash::flash_fwd_kernel<flash::Flash_fwd_kernel_traits<64>>") == "flash_attn2"
    assert kind_of_kernel("void at::native::vectorized_elementwise_kernel") is None


def test_the_outermost_module_and_its_layers_are_found_among_all_objects() -> None:
    model = Decoder(sdpa=True, checkpointed=0)
    bystander = Decoder(sdpa=True, checkpointed=0)
    found = scene_of(model)
    assert found.root is model
    assert found.root is not bystander
    assert found.layers == tuple(model.h)
    assert found.head is model.lm_head
    assert [found.roles[id(block.attn)] for block in model.h] == ["attention"] * 4  # type: ignore[union-attr]


def test_parameters_of_no_module_make_no_scene() -> None:
    assert find_scene([torch.zeros(2, requires_grad=True)], None) is None


def test_liger_pieces_are_told_by_whose_code_runs() -> None:
    from liger_kernel.transformers.rms_norm import LigerRMSNorm

    model = llama()
    assert {piece.piece: (piece.applied, piece.places) for piece in liger_pieces(scene_of(model), None)}["rms_norm"] == (0, 5)
    for layer in model.model.layers:
        layer.input_layernorm.forward = MethodType(LigerRMSNorm.forward, layer.input_layernorm)
    pieces = {piece.piece: piece for piece in liger_pieces(scene_of(model), ["_rms_norm_forward_kernel"])}
    assert (pieces["rms_norm"].applied, pieces["rms_norm"].places, pieces["rms_norm"].ran) == (2, 5, True)
    assert pieces["rms_norm"].plain_classes == ("LlamaRMSNorm",)
    assert (pieces["swiglu"].applied, pieces["swiglu"].places, pieces["swiglu"].ran) == (0, 2, False)
    assert (pieces["rope"].applied, pieces["fused_linear_cross_entropy"].applied) == (0, 0)


def test_quantized_modules_are_counted_with_what_they_hold() -> None:
    bitsandbytes = pytest.importorskip("bitsandbytes")
    model = nn.Module()
    model.plain = nn.Linear(64, 64)
    model.packed = bitsandbytes.nn.Linear4bit(64, 64, bias=False, quant_type="nf4", compress_statistics=False)
    model.to("cpu")
    (row,) = quantized(scene_of(model))
    assert (row.kind, row.modules, row.elements, row.double_quantized) == ("bitsandbytes nf4", 1, 64 * 64, False)
    assert 64 * 64 // 2 < row.bytes < 64 * 64


@pytest.mark.parametrize(
    ("options", "foreach", "fused"), [({}, False, False), ({"foreach": True}, True, False), ({"fused": True}, False, True)]
)
def test_how_an_optimizer_works_is_what_it_was_told_or_torch_chooses(options: dict[str, bool], foreach: bool, fused: bool) -> None:
    optimizer = torch.optim.AdamW(nn.Linear(4, 4).parameters(), **options)  # type: ignore[arg-type]
    (row,) = describe_optimizers([optimizer], None)
    assert (row.foreach, row.fused, row.elements, row.states) == (foreach, fused, 20, ())


def test_padding_is_what_a_mask_leaves_out() -> None:
    ids = torch.ones(2, 8, dtype=torch.long)
    mask = torch.tensor([[1] * 8, [1] * 3 + [0] * 5])
    found = look_at({"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)})
    assert found is not None
    assert (found.shape, found.tokens, found.padding, found.labels, found.ignored_labels) == ((2, 8), 16, 5, 16, 5)
    bare = look_at((ids, ids))
    assert bare is not None
    assert (bare.tokens, bare.padding) == (16, None)
    assert look_at({"pixel_values": torch.zeros(2, 3, 4, 4)}) is None
    assert look_at({"input": torch.zeros(4, 10), "cats": ids}) is None


def test_a_fused_update_that_the_scaler_left_out_is_counted() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler, counting = torch.amp.GradScaler("cpu"), Counting(1000)
    optimizer.register_step_pre_hook(lambda one, *_: counting.update_begins(one))
    for factor in (1.0, float("inf"), 1.0, float("inf")):
        scaler.scale(model(torch.ones(1, 4)).sum() * factor).backward()
        counting.scaler_asked(scaler, id(optimizer))
        scaler.step(optimizer)
        counting.update_ended(id(optimizer))
        scaler.update()
        optimizer.zero_grad()
    counted = counting.counted(nothing_yet(), "AdamW")
    assert counted.precision is not None
    assert (counted.precision.scaler_skipped, counted.precision.scaler_asked) == (2, 4)
    assert counted.precision.autocast_watched is False


def test_a_scaler_that_is_asked_for_two_optimizers_is_asked_once_for_each() -> None:
    counting, scaler = Counting(1000), torch.amp.GradScaler("cpu")
    for _ in range(5):
        counting.scaler_asked(scaler, 1)
        counting.scaler_asked(scaler, 2)
    for _ in range(3):
        counting.update_ended(1)
    precision = counting.counted(nothing_yet(), "AdamW").precision
    assert precision is not None
    assert (precision.scaler_skipped, precision.scaler_asked) == (2, 5)


def test_beside_a_profiler_of_the_script_nothing_is_profiled() -> None:
    model, notes = Decoder(sdpa=True, checkpointed=0), Notes()
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.autograd.profiler.profile() as theirs:
        profiling = Profiling.of([optimizer], None, notes)
        assert profiling is not None
        profiling.start_kernels()
        model(torch.zeros(1, 4, dtype=torch.long))
        profiling.stop_kernels()
    assert any(event.name == "aten::embedding" for event in theirs.function_events)  # type: ignore[union-attr]
    assert "the script runs torch's profiler itself" in notes.lines()[0]


def test_autocast_within_a_compiled_model_is_not_taken_for_off() -> None:
    plain, inside = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4))
    for model, watched in ((plain, True), (torch.compile(inside, backend="eager"), False)):
        marks = Marks(scene_of(model), Notes(), modules=False)
        marks.start()
        model(torch.ones(1, 4))
        marks.stop()
        assert (marks.autocast, marks.watches_autocast) == ({"off"}, watched)


def test_a_rank_that_is_no_number_is_nobodys_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "node-3")
    Report(tmp_path).write(nothing_yet(), Ended("finished"), ())
    (report,) = read_reports(tmp_path)
    assert (report.rank, report.world_size) == (0, 1)
    assert report.started_s <= report.ended.at_s <= time.time()


def test_hooks_of_a_profiled_step_are_gone_after_it() -> None:
    model = Decoder(sdpa=True, checkpointed=0)
    backward = torch.autograd.backward
    marks = Marks(scene_of(model), Notes(), modules=True)
    marks.start()
    model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    assert torch.autograd.backward is not backward
    marks.stop()
    assert torch.autograd.backward is backward
    assert not model._forward_pre_hooks
    assert not nn.modules.module._global_forward_pre_hooks
    assert not nn.modules.module._global_forward_hooks
    assert {id(block) for block in model.h} <= marks.called


@pytest.mark.parametrize(
    ("version", "before", "detaches", "after"),
    [("13.0", None, True, "1"), ("12.4", None, False, None), ("13.0", "0", False, "0"), (None, None, False, None)],
)
def test_the_tracing_library_leaves_after_a_profile_where_it_can_and_nobody_has_forbidden_it(
    version: str | None, before: str | None, detaches: bool, after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    if before is not None:
        monkeypatch.setenv("TEARDOWN_CUPTI", before)
    with monkeypatch.context() as undone:
        undone.setattr(os, "environ", os.environ.copy())
        assert _may_detach() is detaches
        assert os.environ.get("TEARDOWN_CUPTI") == after


def test_what_fails_in_the_probe_is_a_note_and_no_error() -> None:
    notes = Notes()
    with notes.guarded("a thing"):
        raise ValueError("no\nway")
    (line,) = notes.lines()
    assert line.startswith("a thing could not be seen: ValueError at test_audit_reading.py:")
    assert line.endswith(": no")


def test_an_undisturbed_step_of_a_tiny_decoder_pays_less_than_a_twentieth() -> None:
    """All that the probe does in such a step against the step itself; real models take longer, and the probe does not."""
    model = Decoder(sdpa=True, checkpointed=0)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(2, 16, dtype=torch.long)

    def step() -> None:
        model(ids).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    counting = Counting(1000)

    def probed() -> None:
        counting.batch_came(counting, look_at((ids, ids), host_only=True), 0.0)
        counting.update_ended(None)
        counting.step_begins()

    def least_s(call: Any) -> float:
        found = []
        for _ in range(30):
            began = time.perf_counter()
            call()
            found.append(time.perf_counter() - began)
        return min(found)

    step()
    assert least_s(probed) < 0.05 * least_s(step)
    counting.counted(nothing_yet(), "AdamW")
