"""A small file system of its own, for what happens when a disk is full."""
import errno
import shutil
import subprocess

import pytest

from .process import Folder


class SmallDisk(Folder):
    """A folder with room for so many MiB. The test is skipped where nothing may be mounted."""

    def __init__(self, mebibytes, user=None):
        super().__init__("disk", user)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0777", "tmpfs", self.path],
                              capture_output=True, text=True)
        if made.returncode != 0:
            super().remove()
            pytest.skip(f"no disk of our own: {made.stderr.strip()}")
        if user:
            shutil.chown(self.path, user)

    def fill(self):
        """Takes what room is left."""
        with open(self / "ballast", "ab", buffering=0) as ballast:
            for size in (1 << 20, 4096, 1):
                try:
                    while ballast.write(b"\0" * size):
                        pass
                except OSError as full:
                    assert full.errno == errno.ENOSPC

    def free(self):
        """Gives it back."""
        (self / "ballast").unlink()

    def remove(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        super().remove()
