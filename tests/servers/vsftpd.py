"""vsftpd on a free loopback port: no MLSD, hidden dot names, TLS data connections only within the control connection's session.

It needs root. Anonymous login with a list of passwords: no PAM, and no account is made or changed (`ftp` comes with the package).
"""

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from opsguard_defs.ports import held_port
from opsguard_defs.sandbox.servers.certificate import write_self_signed
from resources.file_servers.endpoint import Endpoint, Profile
from tests.need import unavailable
from tests.servers.openssh import await_listening
from tests.servers.peer import Abilities, Peer
from tests.servers.sftp import running

VSFTPD = Path("/usr/sbin/vsftpd")
PASSWORD = "canary-vsftpd-password"

_CONFIG = """\
listen=YES
listen_ipv6=NO
listen_address=127.0.0.1
listen_port={port}
background=NO
anonymous_enable=YES
local_enable=NO
write_enable=YES
anon_upload_enable=YES
anon_mkdir_write_enable=YES
anon_other_write_enable=YES
anon_world_readable_only=NO
anon_umask=022
anon_root={base}/root
secure_email_list_enable=YES
email_password_file={base}/passwords
secure_chroot_dir={base}/empty
xferlog_enable=NO
seccomp_sandbox=NO
use_localtime=NO
"""
_TLS = """\
ssl_enable=YES
allow_anon_ssl=YES
force_anon_logins_ssl=YES
force_anon_data_ssl=YES
ssl_ciphers=HIGH
rsa_cert_file={base}/cert.pem
rsa_private_key_file={base}/key.pem
require_ssl_reuse=YES
implicit_ssl={implicit}
"""


@contextmanager
def vsftpd_peer(base: Path, *, tls: bool = False, implicit: bool = False, side: str = "partner") -> Iterator[Peer]:
    if not VSFTPD.exists():
        unavailable("vsftpd", "apt-get install vsftpd (no daemon needs to run)")
    if os.geteuid() != 0:
        unavailable("vsftpd", "it can only be started as root")
    account = pwd.getpwnam("ftp")
    inbox = base / "root" / "inbox"
    inbox.mkdir(parents=True)
    shutil.chown(inbox, "ftp")
    inbox.parent.chmod(0o555)
    (base / "empty").mkdir()
    (base / "passwords").write_text(PASSWORD + "\n")
    with held_port() as port:
        config = _CONFIG.format(base=base, port=port)
        if tls:
            write_self_signed(cert=base / "cert.pem", key=base / "key.pem")
            config += _TLS.format(base=base, implicit="YES" if implicit else "NO")
        (base / "vsftpd.conf").write_text(config)
        with running([str(VSFTPD), str(base / "vsftpd.conf")], base / "out") as process:
            await_listening(process, port, base / "out")
            endpoint = Endpoint(
                side=side,
                scheme="ftps-implicit" if implicit else "ftps" if tls else "ftp",
                host="127.0.0.1",
                port=port,
                user="ftp",
                password=SecretStr(PASSWORD),
                directory="/inbox",
                ca_file=base / "cert.pem" if tls else None,
                profile=Profile(allow_cleartext=not tls),
            )
            abilities = Abilities(tells_seconds=False, shows_dot_names=False, doubts_round_counts=True, obeys_permissions=True)
            yield Peer("vsftpd", endpoint, inbox, abilities, owner=(account.pw_uid, account.pw_gid))
