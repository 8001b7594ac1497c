/* mockbroker: librdkafka's mock cluster as a program of its own, so that killing the relay does not kill the brokers.
 *
 *   mockbroker [BROKERS]          (default 1; their ids are 1, 2, ...)
 *
 * prints `bootstrap HOST:PORT,...` and then answers each line on stdin with one line, `ok`, `ok NUMBER` or `error TEXT`:
 *
 *   topic NAME PARTITIONS                     creates it (a topic that is asked for is also created by itself, with 4)
 *   topic_error NAME CODE                     the answer to metadata requests for it; NO_ERROR ends that
 *   leader NAME PARTITION BROKER              BROKER -1: the partition has none
 *   fail API CODE [COUNT]                     the next COUNT (1) requests to any broker fail; _TRANSPORT: disconnect
 *   slow BROKER API MS [CODE [COUNT]]         the next requests to this broker are answered after MS
 *   pending BROKER API                        how many of the latter are left
 *   clear API                                 forgets what `fail` has left
 *   rtt BROKER MS                             delay of every answer from now on
 *   down BROKER, up BROKER                    BROKER -1: all of them
 *   quit                                      or the end of stdin
 *
 * API: Produce, Metadata, InitProducerId or a number. CODE: a name as in logs (NOT_ENOUGH_REPLICAS, _TRANSPORT, NO_ERROR)
 * or a number. A Produce request that fails is not written. Written, but its answer lost: `slow 1 Produce 2000`, then
 * `down 1` before that time is over. Topic errors other than UNKNOWN_TOPIC_OR_PART crash clients older than 2.10. The
 * mock does not drop an idempotent producer's repeats, as a real broker does.
 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 8
#define MOST_ERRORS 1000

struct command {
	const char *words[MOST_WORDS];
	int n;
};

typedef bool handler(rd_kafka_mock_cluster_t *, const struct command *);

static bool refuse(const char *text)
{
	printf("error %s\n", text);
	return false;
}

static bool is_good(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR_NO_ERROR ? true : refuse(rd_kafka_err2name(code));
}

static bool parse_number(const char *text, int *number)
{
	char *end;
	long value = strtol(text, &end, 10);

	*number = (int)value;
	return end != text && *end == '\0' && value >= -1000 && value <= 1000000;
}

static bool parse_api(const char *text, int *api)
{
	static const struct {
		const char *name;
		int api;
	} known[] = {{"Produce", 0}, {"Metadata", 3}, {"InitProducerId", 22}};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(text, known[i].name) == 0) {
			*api = known[i].api;
			return true;
		}
	return parse_number(text, api) || refuse("unknown API");
}

static bool parse_code(const char *text, int *code)
{
	const struct rd_kafka_err_desc *descs;
	size_t n, i;

	rd_kafka_get_err_descs(&descs, &n);
	for (i = 0; i < n; i++)
		if (descs[i].name != NULL && strcmp(descs[i].name, text) == 0) {
			*code = descs[i].code;
			return true;
		}
	return parse_number(text, code) || refuse("unknown CODE");
}

static bool parse_count(const struct command *command, int word, int *count)
{
	*count = 1;
	if (command->n <= word)
		return true;
	return (parse_number(command->words[word], count) && *count > 0 && *count <= MOST_ERRORS) ||
	       refuse("COUNT is a number up to 1000");
}

static bool parse_numbers(const struct command *command, int word, int *first, int *second)
{
	bool good = parse_number(command->words[word], first) &&
		    (second == NULL || parse_number(command->words[word + 1], second));

	return good || refuse("not a number");
}

static bool do_topic(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int partitions;

	return parse_numbers(command, 2, &partitions, NULL) &&
	       is_good(rd_kafka_mock_topic_create(cluster, command->words[1], partitions, 1));
}

static bool do_topic_error(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int code;

	if (!parse_code(command->words[2], &code))
		return false;
	rd_kafka_mock_topic_set_error(cluster, command->words[1], (rd_kafka_resp_err_t)code);
	return true;
}

static bool do_leader(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int partition, broker;

	return parse_numbers(command, 2, &partition, &broker) &&
	       is_good(rd_kafka_mock_partition_set_leader(cluster, command->words[1], partition, broker));
}

static bool do_fail(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	rd_kafka_resp_err_t errors[MOST_ERRORS];
	int api, code, count, i;

	if (!parse_api(command->words[1], &api) || !parse_code(command->words[2], &code) ||
	    !parse_count(command, 3, &count))
		return false;
	for (i = 0; i < count; i++)
		errors[i] = (rd_kafka_resp_err_t)code;
	rd_kafka_mock_push_request_errors_array(cluster, (int16_t)api, (size_t)count, errors);
	return true;
}

static bool do_slow(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int broker, api, ms, code = RD_KAFKA_RESP_ERR_NO_ERROR, count;
	bool good = true;

	if (!parse_numbers(command, 1, &broker, NULL) || !parse_api(command->words[2], &api) ||
	    !parse_numbers(command, 3, &ms, NULL) || !parse_count(command, 5, &count) ||
	    (command->n > 4 && !parse_code(command->words[4], &code)))
		return false;
	while (good && count-- > 0)
		good = is_good(rd_kafka_mock_broker_push_request_error_rtts(cluster, broker, (int16_t)api, 1,
									    (rd_kafka_resp_err_t)code, ms));
	return good;
}

static bool do_pending(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int broker, api;
	size_t count = 0;

	if (!parse_numbers(command, 1, &broker, NULL) || !parse_api(command->words[2], &api) ||
	    !is_good(rd_kafka_mock_broker_error_stack_cnt(cluster, broker, (int16_t)api, &count)))
		return false;
	printf("ok %zu\n", count);
	return false; /* answered */
}

static bool do_clear(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int api;

	if (!parse_api(command->words[1], &api))
		return false;
	rd_kafka_mock_clear_request_errors(cluster, (int16_t)api);
	return true;
}

static bool do_rtt(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int broker, ms;

	return parse_numbers(command, 1, &broker, &ms) &&
	       is_good(rd_kafka_mock_broker_set_rtt(cluster, broker, ms));
}

static bool do_down(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int broker;

	return parse_numbers(command, 1, &broker, NULL) && is_good(rd_kafka_mock_broker_set_down(cluster, broker));
}

static bool do_up(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	int broker;

	return parse_numbers(command, 1, &broker, NULL) && is_good(rd_kafka_mock_broker_set_up(cluster, broker));
}

static const struct {
	const char *name;
	int least_words, most_words;
	handler *handle; /* false: it has printed the answer itself */
} commands[] = {
	{"topic", 3, 3, do_topic},   {"topic_error", 3, 3, do_topic_error},
	{"leader", 4, 4, do_leader}, {"fail", 3, 4, do_fail},
	{"slow", 4, 6, do_slow},     {"pending", 3, 3, do_pending},
	{"clear", 2, 2, do_clear},   {"rtt", 3, 3, do_rtt},
	{"down", 2, 2, do_down},     {"up", 2, 2, do_up},
};

static void answer(rd_kafka_mock_cluster_t *cluster, const struct command *command)
{
	size_t i;

	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(command->words[0], commands[i].name) != 0)
			continue;
		if (command->n < commands[i].least_words || command->n > commands[i].most_words)
			refuse("wrong number of words");
		else if (commands[i].handle(cluster, command))
			puts("ok");
		return;
	}
	refuse("unknown command");
}

static struct command split(char *line)
{
	struct command command = {.n = 0};
	char *rest = line, *word;

	while (command.n < MOST_WORDS && (word = strsep(&rest, " \n")) != NULL)
		if (*word != '\0')
			command.words[command.n++] = word;
	return command;
}

static rd_kafka_t *new_client(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;
	char why[256];

	rd_kafka_conf_set_log_cb(conf, NULL);
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (rk == NULL) {
		fprintf(stderr, "mockbroker: %s\n", why);
		exit(EXIT_FAILURE);
	}
	return rk;
}

int main(int argc, char **argv)
{
	rd_kafka_mock_cluster_t *cluster;
	struct command command;
	int brokers = 1;
	char line[1024];
	rd_kafka_t *rk;

	if (argc > 2 || (argc == 2 && (!parse_number(argv[1], &brokers) || brokers < 1))) {
		fputs("usage: mockbroker [BROKERS]\n", stderr);
		return EXIT_FAILURE;
	}
	rk = new_client();
	cluster = rd_kafka_mock_cluster_new(rk, brokers);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("bootstrap %s\n", rd_kafka_mock_cluster_bootstraps(cluster));
	while (fgets(line, sizeof(line), stdin) != NULL) {
		command = split(line);
		if (command.n > 0 && strcmp(command.words[0], "quit") == 0)
			break;
		if (command.n > 0)
			answer(cluster, &command);
	}
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(rk);
	return EXIT_SUCCESS;
}
