"""Liger's pieces: which of them are in, in how many places, and whether their kernels ran."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit
from bench.audited import LigerPiece

LOSSES = ("cross_entropy", "fused_linear_cross_entropy")
"""Two ways to one end: with one of them in, the other is not missing."""


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None:
        return
    wanted = bool(audit.asked("use_liger_kernel")) or any(piece.applied for piece in seen.liger)
    if not wanted:
        return
    if not seen.liger:
        yield wrong("liger", "Liger was asked for, and no place for any of its pieces was found in this model")
        return
    a_loss_is_in = any(piece.applied for piece in seen.liger if piece.piece in LOSSES)
    for piece in seen.liger:
        if piece.places and not (piece.piece in LOSSES and not piece.applied and (a_loss_is_in or piece.piece == LOSSES[0])):
            yield _judged(piece)


def _judged(piece: LigerPiece) -> Finding:
    numbers = {"applied": piece.applied, "places": piece.places}
    name = f"liger_{piece.piece}"
    plain = ", ".join(piece.plain_classes) or "a class that is not told"
    if not piece.applied:
        return wrong(
            name,
            f"Liger {piece.piece} not applied: model class not patched, {plain} computes it",
            "patch before the model is made, with the function of this very family (liger_kernel.transformers.apply_liger_kernel_to_…)",
            **numbers,
        )
    if piece.ran is False:
        return wrong(
            name,
            f"Liger {piece.piece} is in {piece.applied} of {piece.places} places, and none of its kernels ran",
            "the patched class is not what is called: look at the model's forward",
            **numbers,
        )
    if piece.applied < piece.places:
        return look(
            name, f"Liger {piece.piece} is in {piece.applied} of {piece.places} places; {plain} computes the others", **numbers
        )
    kernels = "its kernels ran" if piece.ran else "kernels are not seen on this device"
    return fine(name, f"Liger {piece.piece} is in {piece.applied} of {piece.places} places, {kernels}", **numbers)
