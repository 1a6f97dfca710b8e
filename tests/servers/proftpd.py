"""ProFTPD on a free loopback port, as FTP, FTPS or SFTP server: the only real HASH, XSHA256 and `check-file-name`.

It needs root. One virtual user from a file. Debian's package conflicts with vsftpd's: unpack it beside, and let OPSGUARD_PROFTPD name the
directory with its `usr`; else the one in the PATH is used.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from opsguard_defs.ports import held_port
from opsguard_defs.sandbox.servers.certificate import write_self_signed
from resources.file_servers.endpoint import Endpoint, Profile
from tests.need import unavailable
from tests.servers.openssh import await_listening, generate_key
from tests.servers.peer import Abilities, Peer
from tests.servers.sftp import running

USER = "feeds"
PASSWORD = "canary-proftpd-password"
NOBODY = 65534
HOW_TO_GET_IT = (
    "apt-get download proftpd-core proftpd-mod-crypto libhiredis0.14 libhashkit2 libmemcached11 libmemcachedutil2 libpcre2-posix3,"
    " then dpkg -x each into one directory and set OPSGUARD_PROFTPD to it"
)

_CONFIG = """\
ServerType standalone
DefaultAddress 127.0.0.1
SocketBindTight on
Port {port}
UseIPv6 off
User nobody
Group nogroup
PidFile {base}/pid
ScoreboardFile {base}/scoreboard
DelayEngine off
UseReverseDNS off
AuthUserFile {base}/passwd
AuthOrder mod_auth_file.c
RequireValidShell off
DefaultRoot {base}/root
WtmpLog none
TransferLog none
SystemLog {base}/system.log
AllowOverwrite on
TimesGMT on
"""
_TLS = """\
TLSEngine on
TLSRequired on
TLSECCertificateFile {base}/cert.pem
TLSECCertificateKeyFile {base}/key.pem
TLSLog {base}/tls.log
"""
_SFTP = """\
SFTPEngine on
SFTPHostKey {base}/host_key
SFTPAuthMethods password
SFTPLog {base}/sftp.log
"""


@contextmanager
def proftpd_peer(base: Path, *, mode: Literal["ftp", "ftps", "ftps-implicit", "sftp"], side: str = "partner") -> Iterator[Peer]:
    program, modules = _program()
    if os.geteuid() != 0:
        unavailable("ProFTPD", "it can only be started as root")
    base.chmod(0o755)
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True)
    os.chown(inbox, NOBODY, NOBODY)
    hashed = subprocess.run(["openssl", "passwd", "-6", "-stdin"], input=PASSWORD, capture_output=True, text=True, check=True)
    accounts = base / "passwd"
    accounts.write_text(f"{USER}:{hashed.stdout.strip()}:{NOBODY}:{NOBODY}::{base}/root:/bin/false\n")
    accounts.chmod(0o600)
    with held_port() as port:
        config = f"ModulePath {modules}\nLoadModule mod_digest.c\n"
        if mode == "sftp":
            generate_key(base / "host_key", "rsa", pem=True)
            config += "LoadModule mod_sftp.c\n" + _CONFIG + _SFTP
        elif mode == "ftp":
            config += _CONFIG
        else:
            write_self_signed(cert=base / "cert.pem", key=base / "key.pem")
            config += "LoadModule mod_tls.c\n" + _CONFIG + _TLS
            config += "TLSOptions UseImplicitSSL\n" if mode == "ftps-implicit" else ""
        (base / "proftpd.conf").write_text(config.format(base=base, port=port))
        with running([*program, "-n", "-c", str(base / "proftpd.conf")], base / "out") as process:
            await_listening(process, port, base / "out")
            endpoint = Endpoint(
                side=side,
                scheme=mode,
                host="127.0.0.1",
                port=port,
                user=USER,
                password=SecretStr(PASSWORD),
                directory="/inbox",
                ca_file=base / "cert.pem" if mode.startswith("ftps") else None,
                host_key=(base / "host_key.pub").read_text() if mode == "sftp" else "",
                profile=Profile(allow_cleartext=mode == "ftp"),
            )
            abilities = Abilities(
                hashes=True, doubts_round_counts=mode != "sftp", sends_newlines=mode == "sftp", obeys_permissions=True
            )
            yield Peer(f"proftpd {mode}", endpoint, inbox, abilities, owner=(NOBODY, NOBODY))


def _program() -> tuple[list[str], Path]:
    """Command and directory of its modules. What is only unpacked finds its libraries by the environment."""
    unpacked = os.environ.get("OPSGUARD_PROFTPD", "")
    root = Path(unpacked or "/")
    found = str(root / "usr/sbin/proftpd") if unpacked else shutil.which("proftpd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if not found or not Path(found).exists():
        unavailable("ProFTPD", HOW_TO_GET_IT)
    libraries = ":".join(str(path) for path in sorted(root.glob("usr/lib/*-linux-gnu")))
    command = ["/usr/bin/env", f"LD_LIBRARY_PATH={libraries}", found] if unpacked else [found]
    return command, root / "usr/lib/proftpd"
