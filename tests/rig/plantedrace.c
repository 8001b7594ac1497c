/* plantedrace: a callback that librdkafka calls in a thread of its own counts without a lock what main() reads. The thread
 * sanitizer must find it, although it does not look into the library (tests/tsan.supp). */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <time.h>

#define PATIENCE_SECONDS 10

static int lines;

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
	(void)rk, (void)level, (void)facility, (void)text;
	lines++;
}

int main(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	time_t end = time(NULL) + PATIENCE_SECONDS;
	char why[512] = "";
	rd_kafka_t *rk = NULL;

	rd_kafka_conf_set_log_cb(conf, on_log);
	/* Nobody listens there: the broker's thread says so. */
	if (rd_kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", why, sizeof(why)) == RD_KAFKA_CONF_OK)
		rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (rk == NULL) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	while (lines == 0 && time(NULL) < end)
		rd_kafka_poll(rk, 100);
	rd_kafka_destroy(rk);
	return 0;
}
