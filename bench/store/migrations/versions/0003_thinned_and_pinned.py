"""What `bench db gc` took away and what it must not touch; seeds and durations that nobody told are unknown, not zero."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_STATES = "state IN ('running', 'finished', 'budget', 'interrupted', 'broken')"
_STATUSES = "status IN ('ok', 'unavailable', 'unsupported', 'incorrect', 'oom', 'failed', 'crashed', 'timeout', 'invalid')"


def upgrade() -> None:
    op.create_table(
        "thinned",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("samples_at", sa.Text(), nullable=True),
        sa.Column("log_at", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], name="fk_thinned_result_id"),
        sa.PrimaryKeyConstraint("result_id", name="pk_thinned"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "pin",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("pinned_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_pin_run_id"),
        sa.PrimaryKeyConstraint("run_id", "reason", name="pk_pin"),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("run", copy_from=_run()) as batch:
        batch.alter_column("seed", existing_type=sa.BigInteger(), nullable=True)
    with op.batch_alter_table("result", copy_from=_result()) as batch:
        batch.alter_column("seed", existing_type=sa.BigInteger(), nullable=True)
        batch.alter_column("duration_s", existing_type=sa.Double(), nullable=True)


def _run() -> sa.Table:
    """The table of 0001, told here because Alembic reads no CHECK from SQLite."""
    return sa.Table(
        "run",
        sa.MetaData(),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("suite_file", sa.Text(), nullable=True),
        sa.Column("suite_data", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("planned_trials", sa.BigInteger(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("harness_version", sa.Text(), nullable=False),
        sa.Column("parent_run_id", sa.Text(), nullable=True),
        sa.CheckConstraint(_STATES, name=op.f("ck_run_state_known")),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.Index("ix_run_started_at", "started_at"),
        sa.Index("ix_run_suite", "suite"),
    )


def _result() -> sa.Table:
    """The table of 0001."""
    trial = ("run_id", "case_key", "arm", "trial_index", "attempt")
    return sa.Table(
        "result",
        sa.MetaData(),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("environment_id", sa.Text(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("trial_index", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("pair_index", sa.BigInteger(), nullable=True),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("error_type", sa.Text(), nullable=True),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("method_version", sa.BigInteger(), nullable=False),
        sa.Column("harness_version", sa.Text(), nullable=False),
        sa.Column("excluded_reason", sa.Text(), nullable=True),
        sa.Column("has_cost", sa.Boolean(), nullable=False),
        sa.Column("cost_flops", sa.BigInteger(), nullable=True),
        sa.Column("cost_bytes", sa.BigInteger(), nullable=True),
        sa.Column("cost_tokens", sa.BigInteger(), nullable=True),
        sa.Column("proof_verdict", sa.Text(), nullable=True),
        sa.Column("proof_observed", sa.Text(), nullable=True),
        sa.Column("proof_detail", sa.Text(), nullable=True),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("conditions", sa.Text(), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (reason IS NULL OR reason = '')", name=op.f("ck_result_reason_unless_ok")),
        sa.CheckConstraint(_STATUSES, name=op.f("ck_result_status_known")),
        sa.ForeignKeyConstraint(["case_key"], ["case_.key"], name="fk_result_case_key"),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name="fk_result_environment_id"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_result_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_result"),
        sa.UniqueConstraint(*trial, name="uq_result_run_id_case_key_arm_trial_index_attempt"),
        sa.Index("ix_result_case_key", "case_key"),
    )
