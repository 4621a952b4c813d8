"""Makes Triton's interpreter fit to run the kernels of packages: it runs them on the CPU, program by program, in numpy.

The interpreter is switched on by TRITON_INTERPRET=1 before Triton is imported (the server's environment). Three things that every
package's kernels do are missing in it, and are added here, before any package is imported:

* A Python float that is given to a kernel stays one, while kernels ask it for `.to(tl.float32)`. It becomes an fp32 scalar, which is
  what a device's launcher makes of it.
* The device library's `tanh` and `rsqrt` are declarations without a body. They get numpy's.
* An autotuner times its configurations, for which it needs a driver. All are called equally fast, so that the first one is taken.

bfloat16 is beyond repair: numpy has none, the interpreter keeps its bits in 16-bit integers, and adds and multiplies those. So what
declares it as a dtype is refused here. fp16, fp32 and fp64 are numpy's own.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from bench.errors import HarnessError, Unsupported
from bench.records import Scalar

BROKEN_DTYPES = ("bf16",)

NO_TIME = "an interpreter says nothing of speed"

ADDED = "scalars as fp32, tanh and rsqrt of the device library, an autotuner that takes the first configuration"
"""What was added, in the words of a row."""


def refuse_dtype(dtype: str) -> None:
    """Raises Unsupported for a dtype in which the interpreter computes garbage."""
    if dtype in BROKEN_DTYPES:
        raise Unsupported(f"Triton's interpreter cannot compute in {dtype}: numpy lacks it; take fp32")


def complete() -> dict[str, Scalar]:
    """Adds what is missing; once is enough. The facts for the environment: none where there is no Triton, so nothing to interpret.

    Raises HarnessError where Triton was imported without its interpreter: its kernels would look for a GPU.
    """
    if "triton" not in sys.modules:
        return {}
    import triton

    if not triton.knobs.runtime.interpret:
        raise HarnessError("Triton was imported without TRITON_INTERPRET=1, so its kernels do not run on a CPU")
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    if not hasattr(interpreter, "_bench_completed"):
        _take_floats(interpreter)
        _give_functions(interpreter)
        _take_first_configuration()
        interpreter._bench_completed = True
    return {"triton_interpreter": str(triton.__version__)}


def _take_floats(interpreter: Any) -> None:
    import numpy
    import triton.language as tl

    convert = interpreter._implicit_cvt

    def with_floats(argument: Any) -> Any:
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(numpy.array([argument], dtype=numpy.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        return convert(argument)

    interpreter._implicit_cvt = with_floats


def _give_functions(interpreter: Any) -> None:
    import numpy
    import triton.language as tl

    library: Any = importlib.import_module("triton.language.extra.libdevice")

    def of(function: Callable[[Any], Any]) -> Callable[..., Any]:
        def apply(x: Any, _semantic: Any = None) -> Any:
            data = x.handle.data
            return tl.tensor(interpreter.TensorHandle(function(data).astype(data.dtype), x.handle.dtype), x.type)

        return apply

    library.tanh = of(numpy.tanh)
    library.rsqrt = of(lambda data: 1 / numpy.sqrt(data))


def _take_first_configuration() -> None:
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner

    def equally_fast(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    autotuner._bench = equally_fast
