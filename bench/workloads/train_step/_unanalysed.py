"""Kernels of which torch.compile could not tell what they write: heard from its log while it compiles, and told in words to act on.

Before a Triton kernel of a library goes into a graph, torch reads which of its arguments the kernel writes. Where that fails it warns, and
takes every tensor among them as written, the weights that a layer learns too; what is computed may then be something else. (torch 2.11
fails so wherever a kernel converts a scalar, as RMSNorm's and SwiGLU's of Liger 0.8 do; 2.13 reads them.) What it takes from a compile
cache it reads not again, so a warm trial may be silent where a cold one was not.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping

LOGGER = "torch._dynamo"
"""Where `torch/_higher_order_ops/triton_kernel_wrap.py` logs, in torch 2.11 and 2.13."""
WARNING = "assuming every input is mutated"
"""In its warning, before which the name of the function that failed differs by version."""
UNNAMED = "a Triton kernel"
FACT = "kernels_not_analysed"
"""The condition that tells it in a row."""
_WRAPPED = re.compile(r"""\w+\((["'])(.*)\1\)""")
"""An error as Triton repeats it: its type around its message."""
_LONGEST_CAUSE = 80
_NAMED = 2
"""Kernels that are named; a page shows the first 300 characters of a fact, and what to do should be among them."""


@contextlib.contextmanager
def hearing(heard: dict[str, str]) -> Iterator[None]:
    """Puts into `heard`, kernel to cause, what torch warns of meanwhile; of a kernel that fails twice the first cause."""
    listener = _Listener(heard)
    logger = logging.getLogger(LOGGER)
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


def in_words(heard: Mapping[str, str], fills: Mapping[str, str]) -> str | None:
    """What happened and what to do about it; None where nothing was heard. `fills` are the step's slots with what fills them."""
    if not heard:
        return None
    kernels = sorted(heard)
    others = f" and {len(kernels) - _NAMED} more" if len(kernels) > _NAMED else ""
    slots = [f"{slot}: eager" for slot, fill in fills.items() if fill != "eager" and any(slot in kernel for kernel in kernels)]
    where = f" ({', '.join(slots)})" if slots else ""
    return (
        f"torch's analysis of {', '.join(kernels[:_NAMED])}{others} failed ({heard[kernels[0]]}), so torch.compile takes every"
        f" argument as overwritten, weights too: keep that out of the graph{where}, or try a newer torch"
    )


class _Listener(logging.Handler):
    def __init__(self, heard: dict[str, str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if WARNING in record.getMessage():
            error = record.exc_info[1] if record.exc_info else None
            self._heard.setdefault(_kernel(error), _cause(error))


def _kernel(error: BaseException | None) -> str:
    """Its name, by the frame that caught the error, which has it as `kernel`."""
    trace = error.__traceback__ if error else None
    kernel = trace.tb_frame.f_locals.get("kernel") if trace else None
    name = getattr(getattr(kernel, "fn", None), "__name__", None)
    return name if isinstance(name, str) else UNNAMED


def _cause(error: BaseException | None) -> str:
    """The end of what the error says, since Triton's begins with lines of source."""
    if error is None:
        return "torch does not say why"
    last = (str(error).strip() or type(error).__name__).splitlines()[-1]
    wrapped = _WRAPPED.fullmatch(last)
    return (wrapped[2] if wrapped else last)[:_LONGEST_CAUSE]
