/* version: our own, and of each library the one compiled against and the one that runs. */
#include "cli/cli.h"
#include "io/library.h"

#include <ares_version.h>
#include <ev.h>
#include <librdkafka/rdkafka.h>
#include <microhttpd.h>
#include <pg_config.h>
#include <yaml.h>

static void print_library(const char *name, const char *compiled, const char *running)
{
	printf("%-15s %-12s %s\n", name, compiled, running);
}

static void print_libpq(const char *running)
{
	char compiled[32];

	snprintf(compiled, sizeof(compiled), "%d.%d", PG_VERSION_NUM / 10000, PG_VERSION_NUM % 10000);
	print_library("libpq", compiled, running);
}

static void print_librdkafka(const char *running)
{
	char compiled[32], features[512] = "";
	size_t size = sizeof(features);
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	/* 0xMMmmrrxx; xx = ff is the release itself */
	snprintf(compiled, sizeof(compiled), "%d.%d.%d", RD_KAFKA_VERSION >> 24, RD_KAFKA_VERSION >> 16 & 0xff,
		 RD_KAFKA_VERSION >> 8 & 0xff);
	print_library("librdkafka", compiled, running);
	if (rd_kafka_conf_get(conf, "builtin.features", features, &size) == RD_KAFKA_CONF_OK)
		printf("%-15s %s\n", "  features", features);
	rd_kafka_conf_destroy(conf);
}

static void print_libev(void)
{
	char compiled[32], running[32];

	snprintf(compiled, sizeof(compiled), "%d.%d", EV_VERSION_MAJOR, EV_VERSION_MINOR);
	snprintf(running, sizeof(running), "%d.%d", ev_version_major(), ev_version_minor());
	print_library("libev", compiled, running);
}

static void print_libmicrohttpd(void)
{
	char compiled[32];

	/* each pair of hexadecimal digits is one decimal number */
	snprintf(compiled, sizeof(compiled), "%x.%x.%x", (unsigned)MHD_VERSION >> 24,
		 (unsigned)MHD_VERSION >> 16 & 0xff, (unsigned)MHD_VERSION >> 8 & 0xff);
	print_library("libmicrohttpd", compiled, MHD_get_version());
}

int cli_version(int argc, char **argv)
{
	struct library_versions versions = library_versions();
	const struct cli_option options[] = {CLI_OPTION_END};
	int exit_code;

	if (!cli_options(argc, argv, options, &exit_code))
		return exit_code;
	printf("outboxd %s\n\n%-15s %-12s %s\n", OUTBOXD_VERSION, "library", "compiled", "running");
	print_libpq(versions.libpq);
	print_librdkafka(versions.librdkafka);
	print_libev();
	print_library("libyaml", YAML_COMPILED_VERSION, yaml_get_version_string());
	print_libmicrohttpd();
	print_library("c-ares", ARES_VERSION_STR, versions.libcares);
	return CLI_OK;
}
