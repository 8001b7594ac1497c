"""The commands that need no server: what they print, where, and their exit codes."""
import json
import os
import subprocess

import pytest

from rig.relay import ROOT, binary

COMMANDS = ["run", "check", "schema", "states", "config", "version"]
TOP = "postgres: {dsn: host=h}\nkafka: {bootstrap_servers: b}\n"
SOURCE = TOP + "sources:\n  - name: orders\n"


def outboxd(*arguments, env=None, **more):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=30,
                          env={**os.environ, **(env or {})}, **more)


@pytest.fixture
def config(tmp_path):
    """config(text): the path of a configuration file with that text."""
    def write(text):
        path = tmp_path / "outboxd.yaml"
        path.write_text(text)
        return path
    return write


def check(path, **more):
    return outboxd("check", "--offline", "-c", path, **more)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_help(command, option):
    done = outboxd(command, option)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: outboxd {command}")
    assert f"  {command} " in outboxd("--help").stdout


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["run", "--nothing"], ["check", "-x"], ["config", "-c"],
                                       ["states", "extra"], ["version", "--json"], ["check", "more"], ["run", "--daemon"],
                                       ["-c", "f", "run"]])
def test_F072_usage_errors(arguments):
    done = outboxd(*arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert "usage: outboxd" in done.stderr


def test_version_names_the_libraries():
    done = outboxd("version")
    assert done.returncode == 0
    assert done.stdout.startswith("outboxd ")
    for library in ["libpq", "librdkafka", "features", "libev", "libyaml", "libmicrohttpd"]:
        assert library in done.stdout
    assert outboxd("--version").stdout == done.stdout


def test_states_as_text_and_as_json():
    rows = json.loads(outboxd("states", "--json").stdout)
    assert {"from": "pending", "event": "claim", "to": "in_flight"}.items() <= rows[0].items()
    text = outboxd("states").stdout
    for row in rows:
        assert row["note"] in text


def test_the_default_configuration_is_accepted():
    done = check(ROOT / "conf/outboxd.yaml")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_documents_have_what_the_program_prints():
    assert outboxd("config", "--reference").stdout in (ROOT / "docs/configuration.md").read_text()
    assert outboxd("states").stdout in (ROOT / "README.md").read_text()


def test_a_missing_file_is_a_configuration_error():
    done = check("/nowhere/at/all")
    assert (done.returncode, done.stdout, done.stderr) == (78, "", "/nowhere/at/all: No such file or directory\n")


def test_F075_all_mistakes_in_one_go_also_those_of_the_libraries(config):
    path = config("postgres: {dsn: 'hst=h'}\n"
                  "kafka: {bootstrap_servers: b, properties: {compression.typ: lz4, linger.ms: x, sasl.pasword: y}}\n"
                  "sources:\n  - name: orders\n    pol: 1s\n")
    for command in [["check", "--offline"], ["config"], ["run"], ["schema"]]:
        done = outboxd(*command, "-c", path)
        assert (done.returncode, done.stdout) == (78, "")
        lines = done.stderr.splitlines()
        assert [line.split(": ")[0] for line in lines] == [
            f"{path}:{at}" for at in ["1:17", "2:61", "2:77", "2:94", "5:5"]]
        assert "did you mean compression.type?" in lines[1]
        assert "did you mean sasl.password?" in lines[3]
        assert "did you mean poll?" in lines[4]


def test_settings_that_the_library_finds_contradictory(config):
    done = check(config(SOURCE + "    kafka: {properties: {queue.buffering.max.kbytes: 2, message.max.bytes: 5000}}\n"))
    assert done.returncode == 78
    assert "queue.buffering.max.kbytes" in done.stderr
    assert done.stderr.count("\n") == 1


def test_F038_defaults_and_contradictions(config):
    shown = outboxd("config", "-c", config(SOURCE)).stdout
    assert "enable.idempotence: true\n" in shown and "acks: all\n" in shown
    done = check(config(SOURCE + "    kafka: {properties: {enable.idempotence: false, max.in.flight: 5}}\n"))
    assert done.returncode == 78
    assert "enable.idempotence" in done.stderr and "ordering: key" in done.stderr
    done = check(config(SOURCE + "    ordering: none\n    kafka: {properties: {enable.idempotence: true, acks: 1}}\n"))
    assert done.returncode == 78 and done.stderr.count("\n") == 1
    assert ":6:58: kafka.properties.acks: " in done.stderr and "enable.idempotence" in done.stderr, done.stderr


def test_F036_F037_F039_F044_F058_what_the_documentation_says():
    page = " ".join((ROOT / "docs/configuration.md").read_text().split())
    assert "none: as fast as may be, in any order" in page
    assert "uuids stand in the order of their bytes" in page
    assert "`TT0124` into partition 10 of 15" in page and "would say 9 and 23" in page
    assert "does not end for a password that the server refuses" in page
    assert "36 bytes, the key, the value, and of each header its name, its value and 1 to 3 bytes" in page


def test_F015_lease_and_timeout(config):
    done = check(config(SOURCE + "    lease: 30s\n    kafka: {message_timeout: 120s}\n"))
    assert done.returncode == 78
    for word in ["lease 30s", "message_timeout 120s", "125s"]:
        assert word in done.stderr


DSNS = ["host=h password=S3cr3t!", "postgresql://u:S3cr3t%21@h/d", "postgresql://u:S3cr3t@[::1/d",
        "postgresql://u:S3%zzcr3t@h", "u:S3%zzcr3t@h", "password=S3 cr3t", "host=h sslpassword='S3cr3t"]


@pytest.mark.parametrize("dsn", DSNS)
def test_F088_no_password_in_the_output(config, dsn):
    path = config(f"postgres: {{dsn: {json.dumps(dsn)}}}\nkafka: {{bootstrap_servers: b}}\nsources: [{{name: x}}]\n")
    for command in [["check", "--offline"], ["config"]]:
        done = outboxd(*command, "-c", path)
        for secret in ["S3cr3t", "S3%zzcr3t", "cr3t"]:
            assert secret not in done.stdout + done.stderr


def test_F088_password_from_the_environment(config):
    path = config("postgres: {dsn: 'host=h password=${DB_PASS}'}\nkafka: {bootstrap_servers: b}\nsources: [{name: x}]\n")
    done = outboxd("config", "-c", path, env={"DB_PASS": "S3cr3t"})
    assert done.returncode == 0
    assert 'dsn: "host=h password=***"' in done.stdout and "S3cr3t" not in done.stdout


def test_F076_environment(config):
    path = config(SOURCE + "    batch: ${BATCH_SIZE:-7}\n    poll: ${POLL}\n")
    done = check(path)
    assert done.returncode == 78 and "POLL" in done.stderr and ":6:11: " in done.stderr
    done = outboxd("config", "-c", path, env={"POLL": "3s", "BATCH_SIZE": ""})
    assert "batch: 7\n" in done.stdout and "poll: 3s\n" in done.stdout


def test_the_printed_configuration_is_a_configuration(config):
    first = outboxd("config", "-c", ROOT / "conf/outboxd.yaml").stdout
    assert outboxd("config", "-c", config(first)).stdout == first


def test_an_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([binary(), "config", "--reference"], stdout=full, stderr=subprocess.PIPE, timeout=30)
    assert done.returncode == 70
