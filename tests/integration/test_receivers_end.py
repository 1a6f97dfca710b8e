"""A sandbox whose owner was killed leaves no receiver behind."""

import http.client
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsguard_defs.sandbox.servers import slack_sink, webhook_receiver
from tests.integration.receivers import command, get, port_when_ready
from tests.patience import until


@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("module", [slack_sink.__name__, webhook_receiver.__name__])
def test_a_receiver_dies_with_a_killed_parent(tmp_path: Path, module: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command(module, tmp_path)], env=os.environ
    )
    port = port_when_ready(tmp_path)
    parent.kill()
    parent.wait()

    def is_gone() -> bool:
        try:
            get(port, "/messages")
        except (OSError, http.client.HTTPException):  # refused, or ended in the middle of its answer
            return True
        return False

    until(is_gone, "the receiver's end")
