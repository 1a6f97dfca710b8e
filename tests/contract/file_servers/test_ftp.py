"""The contract of all file servers, for FTP and FTPS on every server at hand."""

from collections.abc import Iterator

import pytest

from tests.contract.file_servers.suite import FileServerContract
from tests.servers.ftp import iis_peer, sandbox_ftp_peer
from tests.servers.peer import Peer
from tests.servers.proftpd import proftpd_peer
from tests.servers.vsftpd import vsftpd_peer


class TestSandbox(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with sandbox_ftp_peer(tmp_path_factory.mktemp("ftp")) as peer:
            yield peer


class TestSandboxWithExplicitTls(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with sandbox_ftp_peer(tmp_path_factory.mktemp("ftps"), tls="explicit") as peer:
            yield peer


class TestSandboxWithImplicitTls(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with sandbox_ftp_peer(tmp_path_factory.mktemp("ftps"), tls="implicit") as peer:
            yield peer


class TestIisLookAlike(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with iis_peer(tmp_path_factory.mktemp("iis")) as peer:
            yield peer


class TestVsftpd(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with vsftpd_peer(tmp_path_factory.mktemp("vsftpd")) as peer:
            yield peer


class TestVsftpdWithTls(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with vsftpd_peer(tmp_path_factory.mktemp("vsftpd"), tls=True) as peer:
            yield peer


class TestProftpd(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with proftpd_peer(tmp_path_factory.mktemp("proftpd"), mode="ftp") as peer:
            yield peer


class TestProftpdWithTls(FileServerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def peer(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
        with proftpd_peer(tmp_path_factory.mktemp("proftpd"), mode="ftps") as peer:
            yield peer
