"""What Dagster loads (`workspace.yaml`, and `[tool.dg]` in `pyproject.toml`, name this module)."""

from opsguard_defs.assembly import definitions
from opsguard_defs.settings import load_settings

defs = definitions(load_settings())
