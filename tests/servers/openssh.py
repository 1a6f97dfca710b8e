"""OpenSSH's own sshd on a free loopback port, SFTP only, login by an authorised key: what most partners run.

It needs root (sshd changes its user) and no account or configuration of the machine is touched. `ChrootDirectory` needs parents that
only root may write, which a temporary directory is not: the paths are the disk's own.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opsguard_defs.ports import held_port
from resources.file_servers.endpoint import Endpoint
from tests.need import unavailable
from tests.patience import PATIENCE_SECONDS
from tests.servers.sftp import ABILITIES, SftpPeer, running

SSHD = Path("/usr/sbin/sshd")

_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {base}/host_key_ed25519
HostKey {base}/host_key_rsa
PidFile {base}/pid
AuthorizedKeysFile {base}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
AllowTcpForwarding no
PermitTTY no
MaxStartups 100
LogLevel ERROR
Subsystem sftp internal-sftp
ForceCommand internal-sftp -d {inbox}
"""


@contextmanager
def openssh_peer(base: Path, *, side: str = "partner") -> Iterator[SftpPeer]:
    """Two host keys, Ed25519 and RSA, as real servers have; the Ed25519 one is pinned."""
    if not SSHD.exists() or shutil.which("ssh-keygen") is None:
        unavailable("OpenSSH's sshd", "apt-get install openssh-server (no daemon needs to run)")
    if os.geteuid() != 0:
        unavailable("OpenSSH's sshd", "it can only be started as root")
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True)
    generate_key(base / "host_key_ed25519", "ed25519")
    generate_key(base / "host_key_rsa", "rsa")
    generate_key(base / "client_key", "ed25519")
    shutil.copy(base / "client_key.pub", base / "authorized_keys")
    (base / "authorized_keys").chmod(0o600)
    Path("/run/sshd").mkdir(exist_ok=True)  # privilege separation directory, normally made by the service
    with held_port() as port:
        (base / "sshd_config").write_text(_CONFIG.format(port=port, base=base, inbox=inbox))
        with running([str(SSHD), "-D", "-e", "-f", str(base / "sshd_config")], base / "out") as process:
            await_listening(process, port, base / "out")
            endpoint = Endpoint(
                side=side,
                scheme="sftp",
                host="127.0.0.1",
                port=port,
                user="root",
                directory=str(inbox),
                key_file=base / "client_key",
                host_key=(base / "host_key_ed25519.pub").read_text(),
            )
            yield SftpPeer(name="openssh", endpoint=endpoint, inbox=inbox, process=process, abilities=ABILITIES)


def generate_key(path: Path, kind: str, *, passphrase: str = "", pem: bool = False) -> Path:
    form = ["-m", "PEM"] if pem else []
    command = ["ssh-keygen", "-q", "-t", kind, *form, "-N", passphrase, "-C", "opsguard-test", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def await_listening(process: "subprocess.Popen[bytes]", port: int, output: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {output.read_text(errors='replace')[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
