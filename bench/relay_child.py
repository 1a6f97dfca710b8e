"""Two relays FTP->SFTP in a process of its own: prints by how many bytes the second, large one made it grow.

    python -m bench.relay_child PORT PORT KEY DIRECTORY HOST_KEY

The first, of 1 MB, has everything imported and allocated once. Then the kernel's high-water mark is reset (Linux) and read again.
"""

import gc
import os
import sys
from pathlib import Path

from pydantic import SecretStr

from bench.relay import relay
from resources.file_servers.endpoint import Endpoint, Profile

_STATUS = Path("/proc/self/status")


def _kilobytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1])


def main(source_port: str, partner_port: str, key: str, directory: str, host_key: str) -> None:
    user, password = os.environ["BENCH_SOURCE_LOGIN"].split(":", 1)
    cleartext = Profile(allow_cleartext=True)
    source = Endpoint(
        "source", "ftp", "127.0.0.1", int(source_port), user, "/inbox", password=SecretStr(password), profile=cleartext
    )
    partner = Endpoint(
        "partner", "sftp", "127.0.0.1", int(partner_port), "root", directory, key_file=Path(key), host_key=host_key
    )
    relay(source, partner, "small.csv")
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _kilobytes("VmRSS")
    sent = relay(source, partner, "large.csv").size_bytes
    print(sent, (_kilobytes("VmHWM") - before) * 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
