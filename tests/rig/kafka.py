"""A real Apache Kafka: one process that is broker and controller, from the project's own jars, run by any Java 17 or later."""
import base64
import collections
import pathlib
import signal
import subprocess
import time
import uuid

import confluent_kafka
import confluent_kafka.admin

from . import maven
from .process import Folder, Process, free_port, port_answers
from .wait import wait_until

VERSION = "4.3.1"

ARTIFACTS = [f"org.apache.kafka:kafka_2.13:{VERSION}", f"org.apache.kafka:kafka-tools:{VERSION}", maven.LOG]
JDBC_VERSION = "42.7.7"  # PostgreSQL's driver, for the examples in Java

LISTENERS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
# What one broker that is its own controller needs; all else is stock.
ALONE = {
    **LISTENERS,
    "process.roles": "broker,controller",
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
FOR_TESTS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.segment.bytes": "67108864",
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # A killed broker may register again only when its old session is over.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # Everybody may do everything, but with a topic that somebody was allowed something: that only (Topics.allow_only).
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}

SASL_USERS = {"relay": "open-sesame"}

# Small and quick to start; and what Kafka's own start script gives the JVM.
SMALL_JVM = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
STOCK_JVM = ["-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
             "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]


def jars():
    """The folder with Kafka's jars."""
    return maven.jars(f"kafka-{VERSION}", f"Apache Kafka {VERSION}", "60 MB", ARTIFACTS)


def jdbc():
    """The folder with PostgreSQL's driver for Java."""
    return maven.jars(f"jdbc-{JDBC_VERSION}", "PostgreSQL's driver for Java", "1 MB", [f"org.postgresql:postgresql:{JDBC_VERSION}"])


Record = collections.namedtuple("Record", "topic partition offset key value headers timestamp")
Record.__doc__ = "What a consumer gets: key and value as bytes or None, headers as a list of (name, bytes or None)."


def new_cluster_id():
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return "A" + cluster[1:] if cluster.startswith("-") else cluster  # the tool would take it for an option


def java(program, *args, jvm=SMALL_JVM):
    return ["java", *jvm, "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", f"{jars()}/*", program, *map(str, args)]


def run_tool(program, *args):
    """One of Kafka's own command-line tools; returns what it printed."""
    done = subprocess.run(java(program, *args), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")
    return done.stdout


class Node:
    """One process of Kafka. It keeps its ports and its data over stop, kill and start.

    settings: what it is, its listeners and its quorum included; cluster: the id that all nodes of a cluster have."""

    def __init__(self, port, settings, cluster, jvm):
        self.port, self.jvm = port, jvm
        self.folder = Folder("kafka")
        self.log_path = self.folder / "log"
        self.process = None
        self._log_start = 0
        facts = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(self.folder / "data"), **settings}
        self.properties = self.folder / "server.properties"
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in facts.items()))
        run_tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", self.properties)

    def start(self, wait=True):
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self.process = Process(java("kafka.Kafka", self.properties, jvm=self.jvm), self.log_path)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        self.process.wait_log("Kafka Server started", 90, start=self._log_start)
        wait_until(lambda: port_answers(self.port), 30, "Kafka's port")

    def alive(self):
        return self.process is not None and self.process.alive()

    def stop(self):
        self.process.end(signal.SIGTERM, 60)

    def kill(self):
        self.process.kill()

    def restart(self):
        self.stop()
        self.start()

    def suspend(self):
        """The process is there and its port answers, but nothing comes back."""
        self.process.send(signal.SIGSTOP)

    def resume(self):
        self.process.send(signal.SIGCONT)

    def unread(self):
        """Bytes that clients have sent to a suspended broker: what it will find when it goes on."""
        return sum(unread_bytes(self.port, table) for table in ("tcp", "tcp6"))

    def remove(self):
        if self.alive():
            self.process.kill()
        self.folder.remove()


def unread_bytes(port, table):
    """In the receive queues of the connections to a local port, by /proc/net/TABLE."""
    lines = [line.split() for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]]
    established = [fields for fields in lines if fields[3] == "01" and int(fields[1].split(":")[1], 16) == port]
    return sum(int(fields[4].split(":")[1], 16) for fields in established)


class Topics:
    """What a test does with the topics of whatever answers at self.bootstrap."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self._admin = None
        self._topics = 0

    def admin(self):
        if self._admin is None:
            # What a suspended node does not answer is asked of another one soon.
            self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0,
                                                             "reconnect.backoff.max.ms": 500, "socket.timeout.ms": 2000})
        return self._admin

    def create_topic(self, name=None, partitions=1, **config):
        """Makes a topic and waits until it can be written; config with _ for . (max_message_bytes=1000). Returns its name."""
        return self._create(name, partitions, config, replication_factor=1)

    def _create(self, name, partitions, config, **replication):
        if name is None:
            self._topics += 1
            name = f"topic-{self._topics}"
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = confluent_kafka.admin.NewTopic(name, partitions, config=config, **replication)
        self.admin().create_topics([topic], operation_timeout=30, request_timeout=60)[name].result(60)
        wait_until(lambda: self.topic_ready(name, partitions), 30, f"leaders for {name}")
        return name

    def topic_ready(self, name, partitions):
        found = self.admin().list_topics(name, timeout=10).topics.get(name)
        return (found is not None and found.error is None and len(found.partitions) == partitions
                and all(part.leader >= 0 for part in found.partitions.values()))

    def delete_topic(self, name):
        self.admin().delete_topics([name], operation_timeout=30, request_timeout=60)[name].result(60)

    def allow_only(self, topic, operation):
        """From now on nobody may do anything else with the topic: Read, Describe, Write ..."""
        self._change_acls("--add", "--allow-principal", "User:*", "--operation", operation, "--topic", topic)

    def allow_all(self, topic):
        self._change_acls("--remove", "--force", "--topic", topic)

    def deny_producer_ids(self):
        """From now on nobody gets a producer id. The right to write to any topic would give it, too; and what an ACL of the
        cluster does not name is forbidden to all, this call's opposite included."""
        self._change_acls("--add", "--allow-principal", "User:*", "--operation", "All", "--cluster")
        self._change_acls("--add", "--deny-principal", "User:*", "--operation", "IdempotentWrite", "--cluster")
        self._change_acls("--add", "--deny-principal", "User:*", "--operation", "Write", "--topic", "*")

    def allow_producer_ids(self):
        self._change_acls("--remove", "--force", "--topic", "*")
        self._change_acls("--remove", "--force", "--cluster")

    def _change_acls(self, *args):
        run_tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", self.bootstrap, *args)

    def read(self, topic, at_least=0, deadline=30):
        """The whole topic, partition by partition in order of offsets. at_least: waits until there are that many."""
        return read(self.bootstrap, topic, at_least, deadline)

    def count(self, topic):
        """How many records the topic has, by its offsets (compacted topics have fewer)."""
        return count(self.bootstrap, topic)


class Kafka(Node, Topics):
    """One broker that is its own controller.

    proxied_port     who connects to it is told to go on at advertised_port, where a test has a proxy to proxied_port
    sasl_port        who connects to it has to be a user of SASL_USERS, by SASL/PLAIN"""

    def __init__(self, settings=FOR_TESTS, jvm=SMALL_JVM):
        port, controller_port = free_port(), free_port()
        self.proxied_port, self.advertised_port, self.sasl_port = free_port(), free_port(), free_port()
        Topics.__init__(self, f"127.0.0.1:{port}")
        Node.__init__(self, port, {
            **ALONE,
            "listener.security.protocol.map": f"{LISTENERS['listener.security.protocol.map']},PROXIED:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{self.proxied_port},"
                         f"SASL://127.0.0.1:{self.sasl_port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://localhost:{self.advertised_port},"
                                    f"SASL://127.0.0.1:{self.sasl_port}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                                                         + " ".join(f'user_{name}="{word}"' for name, word in SASL_USERS.items()) + ";",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            **settings,
        }, new_cluster_id(), jvm)


def reader(bootstrap):
    return confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"reader-{uuid.uuid4()}", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "enable.partition.eof": True, "log_level": 0, "fetch.wait.max.ms": 50,
        "allow.auto.create.topics": False,
    })


def read(bootstrap, topic, at_least=0, deadline=30):
    """Reads to the end of every partition; goes on until there are at_least records or the deadline has passed, and
    returns what it has: the test says what it expected."""
    consumer = reader(bootstrap)
    try:
        parts = wait_until(lambda: sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions), 30, topic)
        consumer.assign([confluent_kafka.TopicPartition(topic, part, confluent_kafka.OFFSET_BEGINNING) for part in parts])
        records, ended, end = [], set(), time.monotonic() + deadline
        while time.monotonic() < end and (len(records) < at_least or len(ended) < len(parts)):
            for message in consumer.consume(10000, timeout=0.1):
                if message.error() is None:
                    records.append(record(message))
                    ended.discard(message.partition())
                elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif not message.error().retriable():
                    raise confluent_kafka.KafkaException(message.error())
        return sorted(records, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()


def count(bootstrap, topic):
    """A broker that has just come back may have no leader for the topic yet: that is waited for."""
    consumer = reader(bootstrap)

    def offsets():
        try:
            return [consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, part), timeout=10)
                    for part in consumer.list_topics(topic, timeout=10).topics[topic].partitions]
        except confluent_kafka.KafkaException:
            return None

    try:
        return sum(high - low for low, high in wait_until(offsets, 30, f"the offsets of {topic}", every=0.2))
    finally:
        consumer.close()


def record(message):
    return Record(message.topic(), message.partition(), message.offset(), message.key(), message.value(),
                  message.headers() or [], message.timestamp()[1])


if __name__ == "__main__":  # `python3 -m rig.kafka`: only fetch, where the progress can be seen
    jars()
    jdbc()
