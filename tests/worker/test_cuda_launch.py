"""What can be known of our kernels' binaries without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.worker.cuda_launch import Binary, parameter_types

PTX = """
.version 8.8
.target sm_90a
	// .globl	stamp
.visible .entry stamp(
	.param .u64 .ptr .global .align 1 stamp_param_0,
	.param .u32 stamp_param_1,
	.param .u64 .ptr .global .align 1 stamp_param_2,
	.param .u64 .ptr .global .align 1 stamp_param_3
)
.reqntid 32
{
	ld.param.b64 	%rd7, [stamp_param_0];
	ld.param.b32 	%r2, [stamp_param_1];
"""


def test_the_types_of_a_kernels_parameters_are_read_from_its_head_and_not_from_its_body() -> None:
    assert parameter_types(PTX) == ("u64", "u32", "u64", "u64")
    with pytest.raises(ValueError, match="no kernel"):
        parameter_types("ld.param.b64 	%rd7, [stamp_param_0];")


def test_a_binary_comes_back_as_it_was_saved_and_is_not_there_when_half_of_it_is(tmp_path: Path) -> None:
    binary = Binary("stamp", b"\x7fELF", ("u64", "u32"))
    assert Binary.saved(tmp_path, "stamp-90") is None
    binary.save(tmp_path / "clock", "stamp-90")
    assert Binary.saved(tmp_path / "clock", "stamp-90") == binary
    assert {path.name for path in (tmp_path / "clock").iterdir()} == {"stamp-90.cubin", "stamp-90.json"}
    (tmp_path / "clock" / "stamp-90.cubin").unlink()
    assert Binary.saved(tmp_path / "clock", "stamp-90") is None
