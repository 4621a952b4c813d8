"""What the check of a training step compares with: computed in few kernels, once for all arms of a point, and by each that it fails."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.records import Status
from bench.workloads.optimizer._algorithms import REFERENCES
from bench.workloads.precision import NUMERICS
from bench.workloads.train_step import WORKLOAD, _learning, _plain
from bench.workloads.train_step._assemble import assemble
from bench.workloads.train_step._curves import FOLDER_VARIABLE, Curves, key_of
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._learning import compare_learning, small_spec
from bench.workloads.train_step._plain import PlainStep
from bench.workloads.train_step._step import TrainingStep
from tests.worker.trials import answer
from tests.workloads.training import training

CPU = torch.device("cpu")


def small_step(precision: str = "bf16_pure", *, fills: dict[str, str] | None = None, **params: Any) -> TrainingStep:
    torch.set_num_threads(1)
    case = training(precision, fills=fills, **params)
    catalogue = load_catalogue()
    implementations = {slot: catalogue.implementation(slot, name) for slot, name in case.subject.items()}
    return assemble(small_spec(WORKLOAD.spec(case)), implementations, 7, CPU)


def compared(step: TrainingStep, curves: Curves | None = None) -> Any:
    return compare_learning(step, torch.Generator().manual_seed(4), curves)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_learning, "STEPS", 6)


@pytest.mark.parametrize("precision", ["bf16_pure", "bf16_master"])
@pytest.mark.parametrize("algorithm", sorted(REFERENCES))
def test_weights_that_lie_in_one_tensor_learn_what_each_alone_learns(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, precision: str
) -> None:
    step = small_step(precision, layers=1, accumulation=2)
    spec, batch = step.spec, make_batch(step.spec, torch.Generator().manual_seed(1))

    def losses() -> list[float]:
        plain = PlainStep(spec, NUMERICS[precision], step.implementations["adaptation"], algorithm, 7, CPU)
        return [plain(batch) for _ in range(3)]

    together = losses()
    monkeypatch.setattr(_plain, "NUMBER_BY_NUMBER", frozenset())
    assert losses() == together
    assert len(set(together)) == 3


def test_plain_adapters_learn_in_the_dtype_of_the_subjects_own() -> None:
    step = small_step("fp16_pure", fills={"adaptation": "lora"}, layers=1)
    plain = PlainStep(step.spec, NUMERICS["fp16_pure"], step.implementations["adaptation"], "adamw", step.seed, CPU)
    batches = [make_batch(step.spec, torch.Generator().manual_seed(seed)) for seed in range(3)]
    assert [plain(batch) for batch in batches] == pytest.approx([float(step(batch)["loss"]) for batch in batches], abs=2e-3)


def test_the_gap_of_a_tf32_step_is_one_to_full_fp32(few_steps: None, monkeypatch: pytest.MonkeyPatch) -> None:
    multiplied = set()

    class Seen(PlainStep):
        def __call__(self, inputs: Any) -> float:
            multiplied.add((self._numerics.compute, torch.get_float32_matmul_precision()))
            return super().__call__(inputs)

    monkeypatch.setattr(_learning, "PlainStep", Seen)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # as a trial's process has it
    try:
        compared(small_step("tf32"))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert multiplied == {("tf32", "high"), ("fp32", "highest")}


def test_an_arm_takes_over_the_curves_that_another_has_left_and_its_check_is_the_same_to_the_bit(
    few_steps: None, tmp_path: Path
) -> None:
    first, second, third = Curves(tmp_path / "of the run"), Curves(tmp_path / "of the run"), Curves(tmp_path / "of the run")
    compared(small_step(), first)
    assert first.taken == 0
    again = {"checkpointing": "full", "rms_norm": "torch_native"}
    assert compared(small_step(fills=again), second) == compared(small_step(fills=again))
    assert second.taken == 4
    compared(small_step("bf16_amp"), third)
    assert third.taken == 1, "what computes in fp32 is the same for every precision"


def test_an_arm_that_curves_of_others_fail_is_compared_with_its_own(few_steps: None, tmp_path: Path) -> None:
    alone = compared(small_step())
    compared(small_step(), Curves(tmp_path))
    left = sorted(tmp_path.iterdir())
    assert len(left) == 4
    for file in left:
        file.write_text("[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]")
    misled = Curves(tmp_path)
    assert compared(small_step(), misled) == alone
    assert alone[0][0].passed
    assert misled.taken == 0, "its verdict was made with none of them"


def test_an_arm_that_learns_otherwise_leaves_no_curves(few_steps: None, tmp_path: Path) -> None:
    right = small_step()
    hasty = small_step()
    for group in hasty.update.optimizer.param_groups:
        group["lr"] *= 20.0
    (check, *_), _ = compared(hasty, Curves(tmp_path))
    assert not check.passed
    assert list(tmp_path.iterdir()) == []
    (check, *_), _ = compared(right, Curves(tmp_path))
    assert check.passed


def test_curves_that_are_not_finite_are_left_to_nobody(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    assert curves.curve("lost", lambda: [1.0, float("nan")])[0] == 1.0
    assert curves.curve("kept", lambda: [1.0, 0.1 + 0.2]) == [1.0, 0.1 + 0.2]
    curves.leave()
    assert len(list(tmp_path.iterdir())) == 1
    later = Curves(tmp_path)
    assert later.curve("kept", list) == [1.0, 0.1 + 0.2]
    assert later.curve("lost", lambda: [2.0]) == [2.0]


def test_a_process_with_an_implementation_from_outside_takes_curves_over_and_leaves_none(few_steps: None, tmp_path: Path) -> None:
    def with_one_from_outside() -> TrainingStep:
        step = small_step()
        norm = dataclasses.replace(step.implementations["rms_norm"], builder=from_outside)
        step.implementations = {**step.implementations, "rms_norm": norm}
        return step

    (check, *_), _ = compared(with_one_from_outside(), Curves(tmp_path))
    assert check.passed
    assert list(tmp_path.iterdir()) == []
    compared(small_step(), Curves(tmp_path))
    taking = Curves(tmp_path)
    compared(with_one_from_outside(), taking)
    assert taking.taken == 4


def from_outside(spec: object) -> None:
    """A builder that is none of the built-in ones."""


def test_curves_that_cannot_be_read_are_computed_and_left_anew(tmp_path: Path) -> None:
    first = Curves(tmp_path)
    for name in ("cut", "empty", "garbled", "folder"):
        first.curve(name, lambda: [1.0, 0.5])
    first.leave()
    cut, empty, garbled, folder = sorted(tmp_path.iterdir())
    cut.write_text("[1.0, 0.")
    empty.write_text("")
    garbled.write_bytes(b"\xff\xfe")
    folder.unlink()
    folder.mkdir()
    second = Curves(tmp_path)
    assert [second.curve(name, lambda: [2.0]) for name in ("cut", "empty", "garbled", "folder")] == [[2.0]] * 4
    assert second.taken == 0
    second.leave()
    third = Curves(tmp_path)
    found = [third.curve(name, lambda: [3.0]) for name in ("cut", "empty", "garbled", "folder")]
    assert sorted(found) == [[2.0], [2.0], [2.0], [3.0]], "a folder in a file's place stays, and costs nobody more than the curve"
    assert third.taken == 3


@contextlib.contextmanager
def switched(holder: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def test_switches_by_which_plain_pytorch_computes_otherwise_are_in_the_key() -> None:
    step = small_step()
    products = torch.backends.cuda.matmul

    def key() -> str:
        return key_of(step.spec, step.implementations["adaptation"], "adamw", 7, CPU, [])

    keys = [key()]
    for name in ("allow_fp16_accumulation", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        with switched(products, name, not getattr(products, name)):
            keys.append(key())
    with switched(products, "fp32_precision", "tf32"):
        with pytest.raises(RuntimeError, match="mix of the legacy and new"):
            torch.get_float32_matmul_precision()
        keys.append(key())
    torch.use_deterministic_algorithms(True)
    try:
        keys.append(key())
    finally:
        torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.bfloat16)
    try:
        keys.append(key())
    finally:
        torch.set_default_dtype(torch.float32)
    torch.set_num_threads(2)
    keys.append(key())
    torch.set_num_threads(1)
    assert len(set(keys)) == len(keys) == 8
    assert key() == keys[0]


def test_a_switch_that_a_subjects_own_steps_throw_parts_its_curves_from_those_of_others(few_steps: None, tmp_path: Path) -> None:
    products = torch.backends.cuda.matmul
    compared(small_step(), Curves(tmp_path))
    throwing, taking = small_step(), Curves(tmp_path)
    embedding = throwing.driver.parts.model.get_input_embeddings()
    embedding.register_forward_pre_hook(lambda *_: setattr(products, "allow_fp16_accumulation", True))
    with switched(products, "allow_fp16_accumulation", products.allow_fp16_accumulation):
        compared(throwing, taking)
        assert products.allow_fp16_accumulation
    assert taking.taken == 0


def test_what_a_curve_follows_from_is_in_its_key_and_what_fills_other_slots_is_not() -> None:
    step = small_step()
    spec, adaptation = step.spec, step.implementations["adaptation"]
    batch = make_batch(spec, torch.Generator().manual_seed(1))

    def key(spec: Any = spec, adaptation: Any = adaptation, algorithm: str = "adamw", seed: int = 7, batch: Any = batch) -> str:
        return key_of(spec, adaptation, algorithm, seed, CPU, [batch])

    other_fills = dataclasses.replace(spec, fills=(("attention", "sdpa_flash"),))
    assert key(other_fills) == key()
    from_outside = dataclasses.replace(adaptation, builder=small_step)
    assert key(other_fills, from_outside) != key(spec, from_outside)
    others = [
        key(dataclasses.replace(spec, lr=2e-3)),
        key(dataclasses.replace(spec, dtype="fp16")),
        key(adaptation=load_catalogue().implementation("adaptation", "lora")),
        key(algorithm="lion"),
        key(seed=8),
        key(batch=make_batch(spec, torch.Generator().manual_seed(2))),
    ]
    assert len({key(), *others}) == 1 + len(others)


def test_a_row_tells_how_many_curves_were_taken_over(few_steps: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "curves"))
    first, second = (answer(tmp_path, training("fp32", fills=fills)) for fills in ({}, {"rms_norm": "torch_native"}))
    assert [reply.status for reply in (first, second)] == [Status.OK, Status.OK]
    assert "plain_curves_taken_over" not in first.conditions
    assert second.conditions["plain_curves_taken_over"] == 3
