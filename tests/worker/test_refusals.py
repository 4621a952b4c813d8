"""What a subject raised, as a status with a reason."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import pytest
import torch

from bench.declare import Unavailable, Unsupported
from bench.records import Status
from bench.worker.refusals import DisagreesError, Failure, classify


def status_of(error: BaseException, *, refuses: tuple[str, ...] = (), building: bool = False) -> Failure:
    try:
        raise error
    except BaseException as caught:  # the chain and the traceback are set by raising
        return classify(caught, refuses=refuses, building=building)


def test_a_subject_that_says_it_is_absent_is_unavailable_in_its_own_words() -> None:
    failure = status_of(Unavailable("needs a newer driver"))
    assert (failure.status, failure.reason, failure.traceback) == (Status.UNAVAILABLE, "needs a newer driver", None)


def test_a_failed_import_is_unavailable_only_while_the_subject_comes_up() -> None:
    error = ImportError("libcudart.so.12: cannot open shared object file")
    assert status_of(error, building=True).status is Status.UNAVAILABLE
    assert "libcudart" in status_of(error, building=True).reason
    assert status_of(error).status is Status.FAILED


BROKEN = {
    "a shared object that ctypes cannot find": (
        "import ctypes\nctypes.CDLL('libnowhere.so.99')",
        "libnowhere.so.99: cannot open shared object file",
    ),
    "a check of its own that fails": ("raise RuntimeError('compiled for CUDA 99')", "RuntimeError: compiled for CUDA 99"),
    "a name that is gone": ("import math\nmath.gone", "has no attribute 'gone'"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_installation_that_is_broken_is_unavailable_in_its_own_words(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, words = BROKEN[what]
    (tmp_path / "half_installed.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Exception) as caught:
        importlib.import_module("half_installed")
    failure = classify(caught.value, refuses=(), building=True)
    assert (failure.status, failure.traceback) == (Status.UNAVAILABLE, None)
    assert words in failure.reason
    assert classify(caught.value, refuses=("99", "gone"), building=True).status is Status.UNSUPPORTED
    assert classify(caught.value, refuses=(), building=False).status is Status.FAILED


def test_generated_code_that_raises_is_no_broken_installation() -> None:
    generated = types.ModuleType("generated")
    with pytest.raises(RuntimeError) as caught:
        exec(compile("raise RuntimeError('too many registers')", "generated.py", "exec"), generated.__dict__)  # noqa: S102 - as compilers run what they have written
    assert classify(caught.value, refuses=(), building=True).status is Status.FAILED


def test_not_implemented_and_declared_messages_are_unsupported() -> None:
    assert status_of(Unsupported("no dropout")).status is Status.UNSUPPORTED
    assert status_of(NotImplementedError("geqrf")).status is Status.UNSUPPORTED
    assert status_of(RuntimeError("No available kernel. Aborting."), refuses=("No available kernel",)).status is Status.UNSUPPORTED
    assert status_of(RuntimeError("No available kernel. Aborting.")).status is Status.FAILED


def test_of_a_long_message_only_what_refuses_is_the_reason() -> None:
    text = "wrapped\n  Hint: advice\n raised NotImplementedError('does not do this.') \nmore"
    assert status_of(RuntimeError(text), refuses=("does not do",)).reason == "does not do this."
    assert status_of(RuntimeError("flash: does not do"), refuses=("not do",)).reason == "flash: does not do"


class Observed(RuntimeError):
    """As torch._dynamo.exc makes them: what was raised exists in its message only."""

    __module__ = "torch._dynamo.exc"


SENTENCE = "FlexAttention does not support backward on CPU. Please set the input requires_grad to False or use another device."


def observed(raised: str) -> Observed:
    return Observed(
        "Observed exception\n  Explanation: Dynamo found no exception handler at the top-level compiled function\n"
        f"  Hint: Your code may result in an error when running in eager.\n\n  Developer debug context: raised exception {raised}\n\n"
        ' For more details about this graph break, please visit: https://example.org\n\nfrom user code:\n   File "flex.py", line 1\n'
    )


@pytest.mark.parametrize("refuses", [(), ("FlexAttention does not support backward on CPU",), ("Observed exception",)])
@pytest.mark.parametrize(
    "raised", [f"NotImplementedError('{SENTENCE}')", f"NotImplementedError([ConstantVariable(str: '{SENTENCE}')])"]
)
def test_what_a_compiler_only_tells_is_given_in_the_librarys_words(raised: str, refuses: tuple[str, ...]) -> None:
    failure = status_of(observed(raised), refuses=refuses)
    assert (failure.status, failure.reason, failure.error_type) == (Status.UNSUPPORTED, SENTENCE, "NotImplementedError")


def test_other_exceptions_in_traced_code_fail_in_their_own_words() -> None:
    failure = status_of(observed("ValueError('q and k differ')"))
    assert (failure.status, failure.reason) == (Status.FAILED, "ValueError: q and k differ")
    assert failure.traceback is not None
    assert "Developer debug context" in failure.traceback
    assert status_of(observed("ValueError('q and k differ')"), refuses=("and k differ",)).status is Status.UNSUPPORTED


def test_the_innermost_words_that_refuse_are_the_reason() -> None:
    try:
        try:
            raise ValueError("No working C++ compiler found")
        except ValueError as inner:
            raise RuntimeError("backend='inductor' raised: No working C++ compiler, set TORCHDYNAMO_VERBOSE=1") from inner
    except RuntimeError as error:
        failure = classify(error, refuses=(r"No working C\+\+ compiler",), building=False)
    assert failure.reason == "No working C++ compiler found"


def test_a_refusal_that_a_compiler_wrapped_is_found_in_the_chain() -> None:
    try:
        try:
            raise Unsupported("head_dim 512")
        except Unsupported as inner:
            raise RuntimeError("compilation failed") from inner
    except RuntimeError as error:
        failure = classify(error, refuses=(), building=False)
    assert (failure.status, failure.reason) == (Status.UNSUPPORTED, "head_dim 512")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'"),
        RuntimeError("cudaErrorMemoryAllocation: out of memory"),
    ],
)
def test_every_way_of_running_out_of_memory_is_oom(error: BaseException) -> None:
    assert status_of(error, refuses=(".*",)).status is Status.OOM


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), ValueError("x")])
def test_whatever_else_a_subject_raises_is_failed_with_its_traceback(error: BaseException) -> None:
    failure = status_of(error)
    assert failure.status is Status.FAILED
    assert failure.error_type == type(error).__name__
    assert failure.traceback is not None
    assert type(error).__name__ in failure.reason


def test_wrong_numbers_are_incorrect() -> None:
    assert status_of(DisagreesError("out (small): error 1 > limit 0.1")) == Failure(
        Status.INCORRECT, "out (small): error 1 > limit 0.1"
    )


def test_an_exception_whose_text_cannot_be_read_still_becomes_a_row() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    failure = status_of(Hostile())
    assert failure.status is Status.FAILED
    assert "Hostile" in failure.reason


def test_reasons_can_be_stored_whatever_is_in_them() -> None:
    failure = status_of(ValueError("\ud800 \0 <script> 'q' " + "x" * 10_000))
    failure.reason.encode()
    assert "\0" not in failure.reason
    assert len(failure.reason) <= 2_000
