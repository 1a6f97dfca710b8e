"""File servers: FTP, FTPS (explicit and implicit) and SFTP behind one interface (`resources.file_servers.interface`)."""

from typing import assert_never

from resources.file_servers.connect import PATIENCE, Patience
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import FileServer


def open_server(endpoint: Endpoint, *, patience: Patience = PATIENCE) -> FileServer:
    """The server for the endpoint's scheme. Nothing is contacted before `reader()` or `writer()` is entered.

    The protocol modules are imported here, not above: paramiko costs 0.3 s that an FTP watch need not pay.
    """
    match endpoint.scheme:
        case "ftp" | "ftps" | "ftps-implicit":
            from resources.file_servers.ftp import FtpServer

            return FtpServer(endpoint, patience=patience)
        case "sftp":
            from resources.file_servers.sftp import SftpServer

            return SftpServer(endpoint, patience=patience)
        case _:
            assert_never(endpoint.scheme)
