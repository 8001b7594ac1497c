"""Three Kafka nodes, for what one broker cannot show: leaders that die, are suspended, or move, and too few replicas.

The first node is the only controller, and never the preferred leader of anything: so whatever happens to the others, leaders
are elected within seconds. All three are brokers, with a copy of every partition.
"""
import concurrent.futures
import json

import confluent_kafka

from .kafka import FOR_TESTS, LISTENERS, SMALL_JVM, Node, Topics, new_cluster_id, run_tool
from .process import free_port
from .wait import wait_until

SETTINGS = {
    **LISTENERS,
    **FOR_TESTS,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",  # leaders move when a test says so
    # What a follower asked of a leader that is suspended now must not keep it from following the next one.
    "replica.socket.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "5000",
}
JVM = [*SMALL_JVM, "-Xms128m", "-Xmx256m"]  # the last word of each option counts

# Who has the copies of partitions 0, 1, 2 ... again and again; the first named is the preferred leader.
REPLICAS = [[2, 3, 1], [3, 2, 1]]


class KafkaCluster(Topics):
    def __init__(self):
        ports, controller_port, cluster = [free_port() for _ in range(3)], free_port(), new_cluster_id()
        super().__init__(",".join(f"127.0.0.1:{port}" for port in ports))

        def node(number):
            port, first = ports[number - 1], number == 1
            return Node(port, {
                **SETTINGS,
                "node.id": number,
                "process.roles": "broker,controller" if first else "broker",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}" + (f",CONTROLLER://127.0.0.1:{controller_port}" if first else ""),
                "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            }, cluster, JVM)

        with concurrent.futures.ThreadPoolExecutor() as pool:  # most of the time each waits for a JVM of its own
            self.nodes = dict(zip((1, 2, 3), pool.map(node, (1, 2, 3))))

    def start(self):
        """Starts the nodes that do not run, all at once, and lets go on those that are suspended."""
        missing = [node.start(wait=False) for node in self.nodes.values() if not node.alive()]
        for node in self.nodes.values():
            node.resume()
        for node in missing:
            node.wait_ready()
        return self

    def remove(self):
        for node in self.nodes.values():
            node.remove()

    def create_topic(self, name=None, partitions=1, **config):
        """As Kafka's; every node has a copy, and the leaders are nodes 2, 3, 2 ..."""
        replicas = [REPLICAS[number % len(REPLICAS)] for number in range(partitions)]
        name = self._create(name, partitions, config, replica_assignment=replicas)
        self.wait_in_sync(name)
        return name

    # ---- who leads, and who follows

    def partitions(self, topic):
        """{number: what the cluster says of it}; {} while nobody can tell."""
        try:
            return self.admin().list_topics(topic, timeout=3).topics[topic].partitions
        except confluent_kafka.KafkaException:
            return {}

    def leader(self, topic, wanted=lambda number: True, deadline=30):
        """The number of the node that leads partition 0, as soon as there is one for which wanted(number) is true: each
        node learns of a change in its own time."""
        def found():
            part = self.partitions(topic).get(0)
            return part is not None and part.leader > 0 and wanted(part.leader) and part.leader

        return wait_until(found, deadline, lambda: f"a leader of {topic}")

    def wait_in_sync(self, topic, copies=3, deadline=60):
        """Waits until each partition has a leader and exactly so many copies in sync."""

        def in_sync():
            parts = self.partitions(topic)
            return parts and all(part.leader > 0 and len(part.isrs) == copies for part in parts.values())

        wait_until(in_sync, deadline, lambda: f"{copies} copies of {topic}: {({n: p.isrs for n, p in self.partitions(topic).items()})}")

    def elect_preferred(self, topic):
        """The preferred leader of each partition takes over, where another one leads now."""
        parts = [{"topic": topic, "partition": part} for part in self.partitions(topic)]
        self._run_tool("LeaderElectionCommand", "--path-to-json-file", {"partitions": parts}, "--election-type", "preferred")

    def replicas(self, topic):
        """Who has the copies of each partition, the preferred leader first."""
        return [part.replicas for _, part in sorted(self.partitions(topic).items())]

    def reassign(self, topic, replicas):
        """Each partition's copies are with these nodes, and nobody else, from now on; waits until they are, and in sync."""
        parts = [{"topic": topic, "partition": part, "replicas": nodes} for part, nodes in enumerate(replicas)]
        self._run_tool("reassign.ReassignPartitionsCommand", "--reassignment-json-file", {"version": 1, "partitions": parts}, "--execute")
        wait_until(lambda: self.replicas(topic) == replicas, 30, lambda: f"{replicas} of {topic}: {self.replicas(topic)}")
        self.wait_in_sync(topic, len(replicas[0]))

    def _run_tool(self, program, option, content, *args):
        """option: the one that takes a file, which has this content."""
        path = self.nodes[1].folder / "tool.json"
        path.write_text(json.dumps(content))
        run_tool(f"org.apache.kafka.tools.{program}", "--bootstrap-server", self.bootstrap, option, path, *args)
