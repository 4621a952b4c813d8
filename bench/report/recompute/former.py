"""Sentences of older versions with what they say today, so that a page which was mailed before a sentence changed still agrees."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

_RATES = (
    "are fewer than four times the L2 or where something is stored in another format, none against a dtype that was not measured, and none"
    " on a CPU. What multiplies in another format has a share of the data sheet's rate for that one alone."
)
FORMER: Mapping[str, str] = {
    "bound by launching kernels and not by the kernels": "timed with gaps in which the device waited for the host",
    "beside busy processes of others (other)": "beside busy processes of others",
    "are fewer than four times the L2, none against a dtype that was not measured, and none on a CPU.": _RATES,
    "are fewer than four times the L2, none against a dtype that was not measured, none of what is held against a declared tolerance"
    " (optimizers aside), since it may compute in another format, and none on a CPU.": _RATES,
}
"""Who changes the words of a sentence that is stated, and not its meaning, adds the old ones here."""
_RATIO = r"× \([\d.]+–[\d.]+\)|×"


def _between(found: re.Match[str]) -> str:
    return f"between world size {math.floor(float(found[1]))} and {math.ceil(float(found[2]))}"


PATTERNS: Mapping[str, str | Callable[[re.Match[str]], str]] = {
    rf"(?:,\s+and faster: 0\.99[6-9]|\s*–\s+and slower: 1\.00)(?:{_RATIO})": ", and as fast within 0.5 %",
    r"takes 1\.00× its time": "is as fast within 0.5 %",
    r"(\bcount\s*)hard: rows are not comparable": r"\1devices of a trial: those of another number are other cases",
    r"\bnothing else (that computes the same )?was measured\b": r"nothing else \1has a number",
    r"→None\b": "→not set",
    r"(?<=[:,] )None→": "not set→",
    r"→True\b": "→yes",
    r"→False\b": "→no",
    r"(?<![\d.])1 rows on": "1 row on",
    r"\bat world size [\d.]+ \(([\d.]+)–([\d.]+)\)": _between,
    r"(matmul \w+|copy) ok(?=, (?:matmul|copy)|\s*$)": r"\1 ok without a rate",
}
"""The same of sentences with numbers or other parts that vary."""


def today(text: str) -> str:
    """The text in today's words."""
    for old, new in FORMER.items():
        text = text.replace(old, new)
    for pattern, said in PATTERNS.items():
        text = re.sub(pattern, said, text)
    return text


_CUT = re.compile(r"(.+)… \(\d+ more characters\)", re.DOTALL)


def begins(printed: str, whole: str) -> bool:
    """Whether `printed` is the beginning of `whole`, and says that it was cut: an older version may quote less of a reason."""
    cut = _CUT.fullmatch(printed.strip())
    return cut is not None and " ".join(whole.split()).startswith(" ".join(cut[1].split()))
