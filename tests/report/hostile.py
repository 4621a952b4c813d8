"""Names that try to be more than names, everywhere a name may stand."""

from __future__ import annotations

import dataclasses

from bench.records import Proof, Result, RevisionItem, Run, Status
from tests import factories

SCRIPT = "<script>window.hacked = true</script>"
NASTY = f"{SCRIPT}\"'`&amp;{{{{ 7*7 }}}}$x^2$ \U0001f9ea </style></svg>-->| ![x](http://evil.example/x.png)\u2028"
LONG = "n" * 300


def hostile() -> tuple[list[Run], list[Result]]:
    """A run in which every free text is hostile."""
    run = factories.run(
        id="run-h", suite=NASTY, question=NASTY + LONG, label=NASTY, command=NASTY, suite_file=NASTY, device="cpu",
        revision=(RevisionItem(NASTY, "path", NASTY, NASTY, True),), suite_data={"protocol": {NASTY: NASTY}},
        harness_version=NASTY,
    )  # fmt: skip
    results = []
    for name in ("eager", NASTY, LONG):
        for seq_len in (128, 256, 512):
            case = factories.case(name, seq_len=seq_len, workload=NASTY)
            case = dataclasses.replace(case, params={**case.params, "model": NASTY, NASTY: LONG})
            environment = factories.environment(**{NASTY: NASTY})
            common = {
                "environment": environment,
                "command": NASTY,
                "log": NASTY + "\n" + LONG,
                "conditions": {NASTY: [{NASTY: NASTY}]},
            }
            if name == LONG and seq_len == 512:
                results.append(
                    factories.result("run-h", case, status=Status.FAILED, reason=NASTY + LONG, error_type=NASTY, **common)
                )
            else:
                proof = Proof("proved", (NASTY, LONG), NASTY)
                results.append(factories.result("run-h", case, time_s=seq_len * 1e-5, proof=proof, **common))
    return [run], results
