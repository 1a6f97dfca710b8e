"""FTP over TLS, explicit (AUTH TLS) and implicit: the certificate is verified, and data connections resume the control session.

vsftpd and ProFTPD refuse a data connection with a new TLS session by default (522, 425, or an end in the handshake), so that nobody
else can take it over.
"""

import hashlib
import socket
import ssl

from resources.errors import ConfigurationError, Unreachable, UntrustedServer
from resources.file_servers.connect import Patience, dial, hang_up, shown
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.ftp_data import DataConnection


class FtpsControl(FtpControl):
    """Nothing but AUTH is said before the certificate is verified; nothing is logged in without it."""

    def __init__(self, endpoint: Endpoint, *, patience: Patience) -> None:
        super().__init__(endpoint, patience=patience)
        self._context = tls_context(endpoint)

    @property
    def _implicit(self) -> bool:
        return self.endpoint.scheme == "ftps-implicit"

    def attach(self, connection: socket.socket) -> None:
        super().attach(self._wrapped(connection) if self._implicit and not isinstance(connection, ssl.SSLSocket) else connection)

    def secure(self) -> None:
        if not self._implicit:
            self.doing = "start TLS"
            reply = self.ask("AUTH TLS")
            if reply.passing:
                raise self.refused(reply, "")
            if reply.code != 234:
                raise UntrustedServer(
                    self.sentence(f'the server answers "{self.said(reply)}" to AUTH TLS: it offers no TLS here, nothing was sent')
                )
            assert self.sock is not None
            self.attach(self._wrapped(self.sock))
        self.fingerprint = fingerprint(self._secured)

    def protect_all_data(self) -> None:
        self.doing = "protect data connections"
        self.require(self.ask("PBSZ 0"), "the server cannot protect data connections")
        self.require(self.ask("PROT P"), "the server refuses to protect data connections: its files would travel readable")

    def protect(self, connection: DataConnection) -> None:
        try:
            connection.wrap(self._context, host=self.host, session=self._secured.session)
        except (OSError, EOFError) as error:
            raise self._untrusted(error) if isinstance(error, ssl.SSLCertVerificationError) else self.broken(error) from None

    @property
    def _secured(self) -> ssl.SSLSocket:
        assert isinstance(self.sock, ssl.SSLSocket)
        return self.sock

    def _wrapped(self, connection: socket.socket) -> ssl.SSLSocket:
        self.doing = "start TLS"
        connection.settimeout(self.patience.connect_seconds)
        try:
            return self._context.wrap_socket(connection, server_hostname=self.endpoint.host)
        except ssl.SSLCertVerificationError as error:
            hang_up(connection)
            raise self._untrusted(error) from None
        except ssl.SSLError as error:
            hang_up(connection)
            why = shown(error.reason or str(error))
            raise Unreachable(self.sentence(f"TLS failed ({why}): is this a TLS port, and is max_tls_version right?")) from None
        except TimeoutError:
            hang_up(connection)
            raise Unreachable(
                self.sentence(
                    f"no TLS answer in {self.patience.connect_seconds:g} s: is this a TLS port (ftps: 21, ftps-implicit: 990)?"
                )
            ) from None
        except OSError as error:
            hang_up(connection)
            raise self.broken(error) from None

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> UntrustedServer:
        seen = self._fingerprint_seen()
        start = "" if self._implicit else " -starttls ftp"
        host = self.endpoint.host.strip("[]")
        address = f"[{host}]:{self.endpoint.port}" if ":" in host else f"{host}:{self.endpoint.port}"
        file = f"{self.endpoint.side}-cert.pem"
        return UntrustedServer(
            self.sentence(
                f"the certificate does not verify ({shown(error.verify_message)}); nothing was sent. Its fingerprint is {seen}: compare it"
                f" with the server's operator. If it is theirs, ask for their authority's certificate (PEM) and name that file as"
                f" {self.endpoint.side}_ca_file. Or trust this one certificate and no other, and name {file}:"
                f" openssl s_client -connect {address}{start} </dev/null | openssl x509 -out {file}"
            )
        )

    def _fingerprint_seen(self) -> str:
        """Asked for on a connection of its own that verifies nothing and sends nothing but AUTH."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        stranger = FtpControl(self.endpoint, patience=self.patience)
        try:
            connection = dial(self.endpoint, patience=self.patience)
            try:
                if not self._implicit:
                    stranger.attach(connection)
                    stranger.reply()
                    stranger.ask("AUTH TLS")
                with context.wrap_socket(connection, server_hostname=self.endpoint.host) as secured:
                    return fingerprint(secured)
            finally:
                hang_up(connection)
        except (OSError, Unreachable):
            return "not to be had"


def tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """TLS 1.2 at least; the system's authorities, or only the certificates in `ca_file`.

    One context per session: sessions resume only within it.
    """
    try:
        context = ssl.create_default_context(cafile=str(endpoint.ca_file) if endpoint.ca_file else None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{endpoint.side}: {endpoint.side}_ca_file {endpoint.ca_file} cannot be read as PEM certificates ({error}): check the path"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if endpoint.ca_file:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a server's own certificate may be named, whoever signed it
    if endpoint.profile.max_tls_version == "1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def fingerprint(connection: ssl.SSLSocket) -> str:
    """`SHA256:AB:CD...` of the certificate, as `openssl x509 -fingerprint -sha256` prints it; "" when there is none."""
    certificate = connection.getpeercert(binary_form=True)
    if not certificate:
        return ""
    digits = hashlib.sha256(certificate).hexdigest().upper()
    return "SHA256:" + ":".join(digits[index : index + 2] for index in range(0, len(digits), 2))
