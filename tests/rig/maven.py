"""Jars that Maven fetches, once: they are kept outside of the work tree, in $OUTBOXD_CACHE or ~/.cache/outboxd."""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys

PLUGIN = "3.6.1"  # Maven's own, that copies them
LOG = "org.slf4j:slf4j-simple:1.7.36"  # so that programs write a log to stderr

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>outboxd</groupId>
  <artifactId>for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{}  </dependencies>
</project>
"""
DEPENDENCY = "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n"


def cache():
    given = os.environ.get("OUTBOXD_CACHE")
    return pathlib.Path(given) if given else pathlib.Path.home() / ".cache" / "outboxd"


def jars(name, title, size, artifacts):
    """The folder of this name with the artifacts (group:name:version) and all that they need; fetched when it is not there yet,
    by one process at a time."""
    folder = cache() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            fetch(folder, title, size, artifacts)
    return folder


def fetch(folder, title, size, artifacts):
    work = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "pom.xml").write_text(POM.format("".join(DEPENDENCY.format(*each.split(":")) for each in artifacts)))
    say(f"Fetching {title} by Maven into {folder.parent} (about {size}, only this once)")
    argv = ["mvn", "-B", f"org.apache.maven.plugins:maven-dependency-plugin:{PLUGIN}:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}/jars"]
    lines, count = [], 0
    with subprocess.Popen(argv, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as maven:
        for line in maven.stdout:
            lines.append(line)
            jar = re.search(r"Downloaded from .*/([^/]+\.jar) \((.*?) at", line)
            if jar:
                count += 1
                say(f"  {count:3} files, last {jar[1]} ({jar[2]})", passing=True)
    if maven.returncode != 0:
        raise SystemExit(f"Maven could not fetch {title}:\n" + "".join(filter(None, map(complaint, lines))))
    (work / "jars").rename(folder)
    shutil.rmtree(work)
    say(f"  {len(list(folder.iterdir()))} jars are there")


def complaint(line):
    return line if re.match(r"\[(ERROR|WARNING)\] .", line) and "Help 1]\n" not in line else ""


def say(text, passing=False):
    """To stderr: whoever waits for a download wants to see it move. passing: a line that the next one replaces on a
    terminal, and of which others see every tenth."""
    out = sys.stderr
    if passing and out.isatty():
        text = f"\r\033[K{text}"
    elif passing:
        say.skipped = getattr(say, "skipped", 0) + 1
        if say.skipped % 10:
            return
        text += "\n"
    else:
        text = ("\r\033[K" if out.isatty() else "") + text + "\n"
    out.write(text)
    out.flush()
