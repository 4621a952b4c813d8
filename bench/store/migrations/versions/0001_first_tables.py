"""The first tables.

Written from the models and never edited afterwards: a later change of the models is a new file beside this one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "case_",
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
        sa.CheckConstraint("pass_ IN ('forward', 'backward', 'forward_backward')", name=op.f("ck_case__pass__known")),
        sa.PrimaryKeyConstraint("key", name="pk_case_"),
    )
    op.create_index("ix_case__point_key", "case_", ["point_key"], unique=False)
    op.create_table(
        "environment",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hard_hash", sa.Text(), nullable=False),
        sa.Column("soft_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_environment"),
        sa.UniqueConstraint("hard_hash", "soft_hash", name="uq_environment_hard_hash_soft_hash"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "run",
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
        sa.CheckConstraint("state IN ('running', 'finished', 'budget', 'interrupted', 'broken')", name=op.f("ck_run_state_known")),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_started_at", "run", ["started_at"], unique=False)
    op.create_index("ix_run_suite", "run", ["suite"], unique=False)
    op.create_table(
        "case_param",
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("number", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["case_key"], ["case_.key"], name="fk_case_param_case_key"),
        sa.PrimaryKeyConstraint("case_key", "name", name="pk_case_param"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "environment_item",
        sa.Column("environment_id", sa.Text(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.CheckConstraint("side IN ('hard', 'soft')", name=op.f("ck_environment_item_side_known")),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name="fk_environment_item_environment_id"),
        sa.PrimaryKeyConstraint("environment_id", "side", "name", name="pk_environment_item"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "result",
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
        sa.CheckConstraint(
            "status IN ('ok', 'unavailable', 'unsupported', 'incorrect', 'oom', 'failed', 'crashed', 'timeout', 'invalid')",
            name=op.f("ck_result_status_known"),
        ),
        sa.ForeignKeyConstraint(["case_key"], ["case_.key"], name="fk_result_case_key"),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name="fk_result_environment_id"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_result_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_result"),
        sa.UniqueConstraint(
            "run_id", "case_key", "arm", "trial_index", "attempt", name="uq_result_run_id_case_key_arm_trial_index_attempt"
        ),
    )
    op.create_index("ix_result_case_key", "result", ["case_key"], unique=False)
    op.create_table(
        "revision_item",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("commit_hash", sa.Text(), nullable=True),
        sa.Column("dirty", sa.Boolean(), nullable=True),
        sa.Column("diff_hash", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_revision_item_run_id"),
        sa.PrimaryKeyConstraint("run_id", "ordinal", name="pk_revision_item"),
    )
    op.create_table(
        "subject",
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("implementation", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["case_key"], ["case_.key"], name="fk_subject_case_key"),
        sa.PrimaryKeyConstraint("case_key", "slot", name="pk_subject"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "check_",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tensor", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("error", sa.Double(), nullable=True),
        sa.Column("plain_error", sa.Double(), nullable=True),
        sa.Column("error_limit", sa.Double(), nullable=True),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], name="fk_check__result_id"),
        sa.PrimaryKeyConstraint("result_id", "ordinal", name="pk_check_"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "log",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], name="fk_log_result_id"),
        sa.PrimaryKeyConstraint("result_id", name="pk_log"),
    )
    op.create_table(
        "measurement",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("calls_per_sample", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("median", sa.Double(), nullable=True),
        sa.Column("mean", sa.Double(), nullable=True),
        sa.Column("p05", sa.Double(), nullable=True),
        sa.Column("p95", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], name="fk_measurement_result_id"),
        sa.PrimaryKeyConstraint("result_id", "metric", "scope", name="pk_measurement"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sample",
        sa.Column("result_id", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["result.id"], name="fk_sample_result_id"),
        sa.PrimaryKeyConstraint("result_id", "metric", "scope", name="pk_sample"),
    )
