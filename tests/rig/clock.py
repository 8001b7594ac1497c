"""A wall clock that is wrong and jumps, for single programs (clock.c)."""
import struct

from .relay import build


class Clock:
    """The wall clock of the programs that have its env, wrong by so many seconds; what is monotonic goes on undisturbed."""

    def __init__(self, path, wrong=0):
        self.path = path
        self.set(wrong)
        path.chmod(0o644)  # a server may run as somebody else
        self.env = {"LD_PRELOAD": str(build() / "tests/rig/clock.so"), "CLOCK": str(path)}

    def set(self, seconds):
        """From this moment on. Eight bytes in one write: nobody sees half of them."""
        with open(self.path, "r+b" if self.path.exists() else "wb", buffering=0) as file:
            file.write(struct.pack("q", int(seconds * 1e6)))
