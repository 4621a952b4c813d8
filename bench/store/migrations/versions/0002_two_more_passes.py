"""Passes of an optimizer (`step`) and of a layer's conversion (`quantize`): the CHECK of `case_.pass_` lets them in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NAME = "ck_case__pass__known"
_BEFORE = "pass_ IN ('forward', 'backward', 'forward_backward')"
_AFTER = "pass_ IN ('forward', 'backward', 'forward_backward', 'step', 'quantize')"


def upgrade() -> None:
    # SQLite builds the table anew, and Alembic reads no CHECK from it, so the table of 0001 is told here.
    before = sa.Table(
        "case_",
        sa.MetaData(),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("point_key", sa.Text(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("workload_version", sa.BigInteger(), nullable=False),
        sa.Column("pass_", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("cache", sa.Text(), nullable=False),
        sa.Column("timer", sa.Text(), nullable=False),
        sa.Column("world_size", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(_BEFORE, name=op.f(_NAME)),
        sa.PrimaryKeyConstraint("key", name="pk_case_"),
        sa.Index("ix_case__point_key", "point_key"),
    )
    with op.batch_alter_table("case_", copy_from=before) as batch:
        batch.drop_constraint(op.f(_NAME), type_="check")
        batch.create_check_constraint(op.f(_NAME), _AFTER)
