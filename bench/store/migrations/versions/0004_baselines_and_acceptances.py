"""Baselines by name, and changes that somebody accepts until a day: both are only ever added to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "baseline",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("set_at", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_baseline_run_id"),
        sa.PrimaryKeyConstraint("name", "set_at", name="pk_baseline"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "acceptance",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("series_key", sa.Text(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("ratio", sa.Double(), nullable=True),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("accepted_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_acceptance"),
        sa.Index("ix_acceptance_series_key", "series_key"),
    )
