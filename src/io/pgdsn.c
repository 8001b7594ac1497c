#include "io/pgdsn.h"

#include "base/buf.h"
#include "base/mem.h"
#include "config/secret.h"
#include "io/pgmemory.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

/* An idle dead peer is noticed by keepalives after 10 + 3 * 5 s, one that no longer acknowledges after 25 s. No
 * `options=`: poolers refuse it. */
static const struct {
	const char *keyword, *value;
} defaults[] = {
	{"fallback_application_name", "outboxd"},
	{"client_encoding", "UTF8"},
	{"keepalives_idle", "10"},
	{"keepalives_interval", "5"},
	{"keepalives_count", "3"},
	{"tcp_user_timeout", "25000"},
};

static void wipe(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	mem_free(text);
}

static size_t find(const struct pgdsn *dsn, const char *keyword)
{
	size_t i = 0;

	while (i < dsn->n && strcmp(dsn->keywords[i], keyword) != 0)
		i++;
	return i;
}

/* Takes value. */
static void set(struct pgdsn *dsn, const char *keyword, char *value)
{
	size_t i = find(dsn, keyword);

	if (i == dsn->n) {
		if (dsn->n + 1 >= dsn->size) { /* one more for the NULL that ends the arrays */
			dsn->size = dsn->size * 2 + 16;
			dsn->keywords = mem_resize(dsn->keywords, dsn->size, sizeof(*dsn->keywords));
			dsn->values = mem_resize(dsn->values, dsn->size, sizeof(*dsn->values));
		}
		dsn->n++;
		dsn->keywords[dsn->n] = NULL;
		dsn->values[dsn->n] = NULL;
	} else {
		wipe(dsn->values[i]);
	}
	dsn->keywords[i] = keyword;
	dsn->values[i] = value;
}

static bool set_password(struct pgdsn *dsn, const char *file, struct err *err)
{
	struct buf password = {0};

	if (!secret_read(file, &password, err))
		return false;
	set(dsn, "password", buf_take(&password));
	return true;
}

PQconninfoOption *pgdsn_parse(const char *text)
{
	char *message = NULL;
	PQconninfoOption *options = PQconninfoParse(text, &message);

	if (options == NULL)
		pgmemory_check(message);
	PQfreemem(message);
	return options;
}

bool pgdsn_read(struct pgdsn *dsn, const struct config_postgres *config, struct err *err)
{
	PQconninfoOption *option = pgdsn_parse(config->dsn);

	*dsn = (struct pgdsn){.options = option};
	if (option == NULL)
		return err_set(err, "the connection string is malformed");
	for (; option->keyword != NULL; option++)
		if (option->val != NULL)
			set(dsn, option->keyword, mem_copy_string(option->val));
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (find(dsn, defaults[i].keyword) == dsn->n)
			set(dsn, defaults[i].keyword, mem_copy_string(defaults[i].value));
	if (pghosts_read(&dsn->hosts, dsn->keywords, (const char *const *)dsn->values, err) &&
	    (config->password_file == NULL || set_password(dsn, config->password_file, err)))
		return true;
	pgdsn_free(dsn);
	return false;
}

void pgdsn_aim(struct pgdsn *dsn, size_t first)
{
	set(dsn, "host", pghosts_list(&dsn->hosts, PGHOSTS_NAME, first));
	set(dsn, "hostaddr", pghosts_list(&dsn->hosts, PGHOSTS_ADDRESS, first));
	set(dsn, "port", pghosts_list(&dsn->hosts, PGHOSTS_PORT, first));
	if (dsn->hosts.n > 1 && find(dsn, "target_session_attrs") == dsn->n)
		set(dsn, "target_session_attrs", mem_copy_string("read-write")); /* a standby is of no use */
}

void pgdsn_free(struct pgdsn *dsn)
{
	for (size_t i = 0; i < dsn->n; i++)
		wipe(dsn->values[i]);
	mem_free(dsn->keywords);
	mem_free(dsn->values);
	pghosts_free(&dsn->hosts);
	PQconninfoFree(dsn->options);
	*dsn = (struct pgdsn){0};
}

/* Replaces every occurrence of secret in text. */
static void hide(struct buf *text, const char *secret)
{
	struct buf clean = {0};
	const char *from = buf_text(text), *hit;

	if (secret == NULL || *secret == '\0')
		return;
	for (; (hit = strstr(from, secret)) != NULL; from = hit + strlen(secret)) {
		buf_add(&clean, from, (size_t)(hit - from));
		buf_add_string(&clean, "***");
	}
	buf_add_string(&clean, from);
	buf_free(text);
	*text = clean;
}

/* Runs of white space, line ends among them, become one space. */
static void add_line(struct buf *line, const char *message)
{
	for (; *message != '\0'; message++) {
		if (strchr(" \t\r\n", *message) == NULL)
			buf_add_char(line, *message);
		else if (line->len > 0 && line->bytes[line->len - 1] != ' ')
			buf_add_char(line, ' ');
	}
	if (line->len > 0 && line->bytes[line->len - 1] == ' ')
		line->bytes[--line->len] = '\0';
}

void pgdsn_describe(const struct pgdsn *dsn, const char *message, struct err *out)
{
	static const char *const secrets[] = {"password", "sslpassword"};
	struct buf line = {0};
	size_t i;

	add_line(&line, message);
	for (size_t s = 0; s < sizeof(secrets) / sizeof(secrets[0]); s++)
		if ((i = find(dsn, secrets[s])) < dsn->n)
			hide(&line, dsn->values[i]);
	hide(&line, getenv("PGPASSWORD"));
	err_set(out, "%s", buf_text(&line));
	buf_free(&line);
}

struct config_postgres pgdsn_copy_config(const struct config_postgres *config)
{
	struct config_postgres copy = *config;

	copy.dsn = mem_copy_string(config->dsn);
	copy.password_file = mem_copy_string(config->password_file);
	return copy;
}

void pgdsn_free_config(struct config_postgres *copy)
{
	mem_free((void *)copy->dsn);
	mem_free((void *)copy->password_file);
	*copy = (struct config_postgres){0};
}
