"""The project's `dagster.yaml` and `workspace.yaml` as an installed package carries them: copies of the two at the top of the checkout.

A directory of its own: Dagster puts it on the module path, and nothing else may be importable from there.
"""

from pathlib import Path
from typing import Final

INSTANCE_FILE: Final = Path(__file__).resolve().parent / "dagster.yaml"
WORKSPACE: Final = Path(__file__).resolve().parent / "workspace.yaml"
