"""What a reader has to know to compare: machine and versions. Nothing here names the machine, or a place on it."""
import datetime
import os
import pathlib
import platform
import re
import subprocess
import time

from rig import kafka
from rig.relay import run_command

DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


def about(servers):
    return {"begun": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}", "machine": machine(servers),
            "versions": versions(servers)}


def machine(servers):
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|Model)\s*:\s*(.*)$", info, re.M)
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": model[1] if model else platform.machine(),
        "memory_gib": round(memory / 1024**2, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": subprocess.check_output(["df", "--output=fstype", servers.folder.path], text=True).split()[1],
        "sync_us": round(sync_us(servers.folder / "sync")),
        "load_before": round(os.getloadavg()[0], 2),
    }


def sync_us(path, times=200):
    """How long one page takes to the disk, the median: each commit pays that."""
    page, taken = bytes(8192), []
    with open(path, "wb", buffering=0) as file:
        for _ in range(times):
            begin = time.monotonic()
            file.seek(0)
            file.write(page)
            os.fdatasync(file.fileno())
            taken.append(time.monotonic() - begin)
    return sorted(taken)[times // 2] * 1e6


def versions(servers):
    """The running versions of everything that takes part, and the settings that make commits durable."""
    told = run_command("version").stdout
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return {
        "outboxd": told.split()[1],
        **dict(re.findall(r"^(lib(?!rary)\w+) +\S+ +(\S+)$", told, re.M)),
        "PostgreSQL": servers.admin.value("SHOW server_version").split()[0],
        "Kafka": kafka.VERSION,
        "Java": re.search(r'"(.*?)"', java)[1],
        **{name: servers.admin.value(f"SHOW {name}") for name in DURABLE},
    }
