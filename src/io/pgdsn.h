/* pgdsn: what libpq is told to connect with: the configured string, our own defaults, and the password, read anew.
 * Nothing that libpq says about a malformed string is passed on, for it quotes the string with its password. */
#ifndef OUTBOXD_IO_PGDSN_H
#define OUTBOXD_IO_PGDSN_H

#include "base/err.h"
#include "config/config.h"
#include "io/pghosts.h"

struct _PQconninfoOption; /* libpq's PQconninfoOption */

/* Parallel arrays for PQconnectStartParams, ended by NULL. Holds secrets: pgdsn_free wipes them. */
struct pgdsn {
	const char **keywords; /* static, libpq's or ours */
	char **values;
	size_t n, size;
	struct pghosts hosts;
	struct _PQconninfoOption *options; /* owns the keywords */
};

/* What libpq reads in a connection string, to be freed with PQconninfoFree; NULL when it is malformed. */
struct _PQconninfoOption *pgdsn_parse(const char *text);

/* Sets application_name, client_encoding, keepalives and tcp_user_timeout unless the string has them. Before anybody
 * connects comes pgdsn_aim. False and err (without secrets) when the string is malformed or the password file cannot be
 * read; nothing is to be freed then. */
bool pgdsn_read(struct pgdsn *dsn, const struct config_postgres *config, struct err *err) must_check;

/* Sets host, hostaddr and port to the hosts, which may have changed since pgdsn_read; the one at `first` (modulo their
 * number) is tried first. With several hosts sets target_session_attrs unless the string has it. */
void pgdsn_aim(struct pgdsn *dsn, size_t first);

/* An all-zero pgdsn is fine. */
void pgdsn_free(struct pgdsn *dsn);

/* What libpq or a server said, as one line, with every password that was in use replaced by ***. */
void pgdsn_describe(const struct pgdsn *dsn, const char *message, struct err *out);

/* A copy that owns its strings, and its end. */
struct config_postgres pgdsn_copy_config(const struct config_postgres *config);
void pgdsn_free_config(struct config_postgres *copy);

#endif
