# SPDX-License-Identifier: Apache-2.0
"""Waits for what becomes of files: the kernel tells of each change in a folder (inotify)."""
import ctypes
import os
import select

from conftest import HANG

MODIFY, MOVED_TO, CREATE = 0x2, 0x80, 0x100
LIBC = ctypes.CDLL(None, use_errno=True)


def until(folder, true):
    """Looks at what is asked for now, and behind each change of the files in a folder."""
    fd = LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    try:
        watch = LIBC.inotify_add_watch(fd, os.fsencode(folder), MODIFY | MOVED_TO | CREATE)
        assert watch >= 0, os.strerror(ctypes.get_errno())
        while not true():
            assert select.select([fd], [], [], HANG)[0], f"nothing changes in {folder}"
            os.read(fd, 65536)
    finally:
        os.close(fd)
