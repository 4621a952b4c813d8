"""In which format a case's products are computed: as its rows tell, else as its implementations declare.

Rows tell nothing of it; a page repeats what was found for it, so that whoever reads the page needs no plug-in.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from bench.catalogue import load_catalogue
from bench.declare import OWN_DTYPE, PRODUCTS
from bench.errors import PluginError, SelectionError
from bench.records import Case, Result

COUNTED_FOR_ALL = "optimizer"
"""The workload and slot whose formula counts only what each subject moves, whatever it stores its states in."""
MULTIPLIES_IN = "multiplies_in"
"""What a page calls it among a trial's conditions."""
UNKNOWN = "unknown"


def multiplied_in(case: Case, rows: Iterable[Result]) -> str | None:
    """One of `declare.PRODUCTS`; None where it is not known, and where some parts of a model multiply in another format than the rest.

    Of a case that is held against a declared tolerance: all others compute in their dtype.
    """
    told = next((row.conditions[MULTIPLIES_IN] for row in rows if MULTIPLIES_IN in row.conditions), None)
    if told is not None:
        return str(told) if told in PRODUCTS else None
    return _declared_by(tuple(sorted(case.subject.items())))


@cache
def _declared_by(subject: tuple[tuple[str, str], ...]) -> str | None:
    """The same of a subject, slot by slot; looked up once in a process, since pages ask for every row of a case.

    None as well where a file of a slot cannot be loaded: what was measured is shown while somebody writes a kernel.
    """
    try:
        declared = [load_catalogue().implementation(slot, name) for slot, name in subject]
    except (SelectionError, PluginError):
        return None
    formats = {one.multiplies_in for one in declared if one.tolerance is not None}
    if not formats and COUNTED_FOR_ALL in dict(subject):
        return OWN_DTYPE  # the tolerance is that of the update, whose implementations tell theirs with what they build
    return formats.pop() if len(formats) == 1 and (len(declared) == 1 or formats == {OWN_DTYPE}) else None
