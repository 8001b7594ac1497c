/* pghosts: the servers that an attempt to connect goes through, in their order: what libpq would make of host, hostaddr and
 * port, wherever they come from: the connection string, a service file, the environment. */
#ifndef OUTBOXD_IO_PGHOSTS_H
#define OUTBOXD_IO_PGHOSTS_H

#include "base/err.h"

#include <stddef.h>

enum pghosts_part { PGHOSTS_NAME, PGHOSTS_ADDRESS, PGHOSTS_PORT };
#define PGHOSTS_PARTS (PGHOSTS_PORT + 1)

/* By enum pghosts_part, never NULL; "": not given. */
struct pghost {
	char *parts[PGHOSTS_PARTS];
};

struct pghosts {
	struct pghost *list;
	size_t n;
};

/* keywords and values: as for PQconnectStartParams. False and err when the lists do not fit each other. */
bool pghosts_read(struct pghosts *hosts, const char *const *keywords, const char *const *values,
		  struct err *err) must_check;

/* An all-zero one is fine. */
void pghosts_free(struct pghosts *hosts);

/* The name that has to be looked up before anybody can connect; NULL for an address, a socket, and the default.
 * Borrowed. */
const char *pghosts_name_to_look_up(const struct pghost *host);

/* In place of the host: one for each of the n addresses, with its name and port. n may be 0. */
void pghosts_replace(struct pghosts *hosts, size_t i, char *const *addresses, size_t n);

/* One part of all as libpq's list, from the host at `first` (modulo their number) on: "b,c,a". The caller frees it. */
char *pghosts_list(const struct pghosts *hosts, enum pghosts_part part, size_t first);

#endif
