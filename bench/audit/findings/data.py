"""How batches come: padding that is computed for nothing, and time in which the device waits for data."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look
from bench.audit.whole import Audit
from bench.records import Scalar
from bench.report.numbers import units

MUCH_PADDING = 0.10
MUCH_WAITING = 0.10


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    data = seen.data if seen is not None else None
    if data is None:
        return
    if data.padding_share is not None:
        share = data.padding_share
        numbers = {"padding_share": share, "batches": data.batches_seen}
        if share >= MUCH_PADDING:
            yield look(
                "padding",
                f"padding share {units.percent(share)}: that part of the tokens teaches nothing",
                "group by length, or pack documents (group_by_length=True, padding_free or packing of the collator)",
                **numbers,
            )
        else:
            yield fine("padding", f"padding share {units.percent(share)}", **numbers)
    if data.wait_share is not None:
        waiting: dict[str, Scalar] = {"waiting_share": data.wait_share, "workers": data.workers}
        if data.wait_share >= MUCH_WAITING:
            more = (
                "dataloader_num_workers=4 and dataloader_pin_memory=True"
                if not data.workers
                else "more workers, or data that is prepared once"
            )
            yield look("data_loader", f"the training waits for data {units.percent(data.wait_share)} of the time", more, **waiting)
        else:
            yield fine("data_loader", f"the training waits for data {units.percent(data.wait_share)} of the time", **waiting)
    if audit.on_cuda and data.workers and data.pin_memory is False:
        yield look(
            "pin_memory", "batches are not in pinned memory: copies to the GPU hold the loop up", "pin_memory=True of the DataLoader",
            workers=data.workers,
        )  # fmt: skip
