"""Alembic migrations of schema `opsguard`, applied by `resources.state.migrate`. One transaction for all that are due."""
