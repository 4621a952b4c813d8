"""Runs the migrations on the connection, and inside the transaction, that bench.store.schema hands over."""

from __future__ import annotations

from alembic import context

from bench.store.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    compare_type=True,
)
# No transaction of its own: the caller commits the tables together with their first rows.
context.run_migrations()
