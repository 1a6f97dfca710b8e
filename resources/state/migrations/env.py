"""Alembic's entry: runs in the transaction that `resources.state.migrate` opened, under its lock."""

from alembic import context

from resources.state.tables import SCHEMA, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
with context.begin_transaction():
    context.run_migrations()
