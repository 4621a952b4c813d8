"""What is found in an audit: each module in this folder looks at one subject, and is found by being here.

A module has `find(audit)`, which yields findings and needs nothing but the audit. It may count on an update having been seen, and on
nothing else: whatever the probe could not see is None or missing, and then it is silent and does not guess.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Protocol, cast

from bench.audit.finding import ORDER, Finding
from bench.audit.whole import Audit


class Finder(Protocol):
    """What a module of this folder offers."""

    def find(self, audit: Audit) -> Iterator[Finding]:
        """All that there is to say of its subject."""


ENDING = "ending"
"""The one subject that is there without an update."""


def finders() -> Mapping[str, Finder]:
    """All of them by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: cast("Finder", importlib.import_module(f"{__name__}.{name}")) for name in names}


def findings(audit: Audit) -> tuple[Finding, ...]:
    """The gravest first; of equals in the order of the subjects' names."""
    found = [one for name, finder in finders().items() if audit.trained or name == ENDING for one in finder.find(audit)]
    return tuple(sorted(found, key=lambda one: ORDER.index(one.severity)))
