"""Where the file store refuses to stand, and what it tells the operator."""

import os
import stat
from pathlib import Path

import pytest

from resources.errors import ConfigurationError, Unreachable
from resources.ledger.file import place
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import reserved

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k
40 27 0:45 / /srv/team\\040share rw,relatime shared:9 - nfs4 filer:/export/team rw,vers=4.2
41 27 0:46 / /mnt/win rw,relatime - cifs //filer/share rw,vers=3.1.1
42 27 0:47 / /mnt/cloud rw,nosuid,nodev,relatime - fuse.s3fs s3fs rw,user_id=0
43 27 0:48 / /mnt/host rw,relatime - 9p host rw,trans=virtio
44 27 253:1 / /var/lib/data rw,relatime - xfs /dev/mapper/data rw
45 44 0:49 / /var/lib/data rw,relatime - nfs filer:/over rw
"""


@pytest.mark.parametrize(
    ("path", "device", "kind"),
    [
        ("/home/ops/ledger", (254, 0), "ext4"),
        ("/dev/shm/ledger", (0, 27), "tmpfs"),
        ("/srv/team share/ledger", (0, 45), "nfs4"),
        ("/srv/team share", (0, 45), "nfs4"),
        ("/srv/team shared", (254, 0), "ext4"),
        ("/mnt/win/x", (0, 46), "cifs"),
        ("/mnt/cloud/x", (0, 47), "fuse.s3fs"),
        ("/mnt/host/x", (0, 48), "9p"),
        ("/var/lib/data/ledger", (0, 49), "nfs"),
        ("/elsewhere/by/device", (0, 45), "nfs4"),
        ("/btrfs/subvolume", (0, 99), "ext4"),
    ],
)
def test_the_kind_of_file_system_is_read_from_the_kernels_own_list(path, device, kind):
    assert place.file_system(path, os.makedev(*device), MOUNTS) == kind


def test_without_the_list_the_kind_is_not_known():
    assert place.file_system("/home/ops", os.makedev(254, 0), "") == ""


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "afs", "gfs2", "ocfs2", "fuse", "fuse.sshfs"]
)
def test_network_file_systems_are_known(kind):
    assert place.is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs"])
def test_local_ones_are_not_taken_for_one(kind):
    assert not place.is_network(kind)


def test_a_root_on_a_network_file_system_is_refused(root):
    """fcntl locks over NFS are advisory at best: two hosts each believed to hold the only one."""
    root.mkdir(mode=0o700)
    device = root.stat().st_dev
    text = f"50 1 {os.major(device)}:{os.minor(device)} / / rw - nfs4 filer:/export rw\n"
    with pytest.raises(ConfigurationError, match="network file system \\(nfs4\\)"):
        FileLedger.open(root, mounts=lambda: text)
    assert list(root.iterdir()) == []


def test_a_link_in_place_of_the_directory_is_refused(root):
    (root.parent / "real").mkdir(mode=0o700)
    root.symlink_to(root.parent / "real")
    with pytest.raises(ConfigurationError, match="symbolic link"):
        FileLedger.open(root)


def test_a_file_in_place_of_the_directory_is_refused(root):
    root.write_text("")
    with pytest.raises(ConfigurationError, match="not a directory"):
        FileLedger.open(root)


def test_a_directory_that_others_may_read_is_refused(root):
    root.mkdir(mode=0o755)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        FileLedger.open(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_directory_of_another_user_is_refused(root):
    root.mkdir(mode=0o700)
    os.chown(root, 65534, 65534)
    with pytest.raises(ConfigurationError, match="another user"):
        FileLedger.open(root)


def test_a_read_only_file_system_is_refused(root, monkeypatch):
    root.mkdir(mode=0o700)
    real = os.statvfs(root)
    fields = list(real[:10])
    fields[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([*fields, real.f_fsid]))
    with pytest.raises(Unreachable, match="read-only"):
        FileLedger.open(root)


@pytest.mark.parametrize("name", ["fence.json", "anchor", "lock", "segments", "claims", "segments/000001.jsonl"])
def test_a_link_among_its_files_is_refused(root, name):
    with FileLedger.open(root) as opened:
        reserved(opened)
    path = root / name
    path.rename(root.parent / "moved")
    path.symlink_to(root.parent / "moved")
    with pytest.raises((ConfigurationError, Unreachable)):
        FileLedger.open(root)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_link_among_the_claims_is_refused(root, depth):
    with FileLedger.open(root) as opened:
        reserved(opened)
    path = root.joinpath("claims", *("partner-1", "p-0", "feed")[:depth])
    path.rename(root.parent / "moved")
    path.symlink_to(root.parent / "moved")
    with pytest.raises(ConfigurationError, match="link"):
        FileLedger.open(root)


def test_a_file_that_others_may_read_is_refused(root):
    FileLedger.open(root).close()
    (root / "segments" / "000001.jsonl").chmod(0o640)
    with pytest.raises(ConfigurationError, match="other users"):
        FileLedger.open(root)


def test_what_it_makes_is_private(root):
    with FileLedger.open(root) as opened:
        reserved(opened)
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_directories_above_are_made(root):
    deep = root / "a" / "b"
    with FileLedger.open(deep) as opened:
        reserved(opened)
    assert (deep / "fence.json").exists()


def test_a_lock_file_that_was_replaced_closes_the_store(root, ledger):
    """An eager clean-up job removed the lock file; the next process made another, and both held "the" lock."""
    (root / "lock").rename(root / "lock.old")
    (root / "lock").touch(mode=0o600)
    with pytest.raises(Unreachable, match="lock file was replaced"):
        reserved(ledger)
    with pytest.raises(Unreachable, match="open it again"):
        ledger.head()


def test_a_directory_that_cannot_be_named_is_a_sentence(root):
    root.write_text("")
    with pytest.raises(ConfigurationError):
        FileLedger.open(root / "below")


def test_where_there_is_no_machine_id_the_lock_file_alone_tells_a_copy(root, monkeypatch):
    monkeypatch.setattr(place, "_MACHINE_IDS", (Path("/nonexistent/machine-id"),))
    with FileLedger.open(root) as opened:
        reserved(opened)
    with FileLedger.open(root) as again:
        assert again.health().recovery == ""
