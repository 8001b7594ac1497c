#include "io/pghosts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "io/pgmemory.h"

#include <libpq-fe.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

static const char *const keyword_of[PGHOSTS_PARTS] = {"host", "hostaddr", "port"};

/* Only libpq knows what a service file and the environment add, and it tells that of a connection alone: here of one
 * that cannot even begin, for there is no such sslmode. */
static PQconninfoOption *ask_libpq(const char *const *keywords, const char *const *values)
{
	PQconninfoOption *options;
	const char **all_keywords, **all_values;
	size_t n = 0;
	PGconn *pg;

	while (keywords[n] != NULL)
		n++;
	all_keywords = MEM_NEW_ARRAY(n + 2, const char *);
	all_values = MEM_NEW_ARRAY(n + 2, const char *);
	memcpy(all_keywords, keywords, n * sizeof(*keywords));
	memcpy(all_values, values, n * sizeof(*values));
	all_keywords[n] = "sslmode";
	all_values[n] = "none: only read the options";
	pg = PQconnectStartParams(all_keywords, all_values, 0);
	/* Else it would connect to wherever nobody has configured. */
	pgmemory_check(PQerrorMessage(pg));
	options = PQconninfo(pg);
	if (options == NULL)
		mem_exhausted();
	PQfinish(pg);
	mem_free(all_keywords);
	mem_free(all_values);
	return options;
}

static const char *value_of(const PQconninfoOption *option, const char *keyword)
{
	for (; option != NULL && option->keyword != NULL; option++)
		if (strcmp(option->keyword, keyword) == 0 && option->val != NULL)
			return option->val;
	return "";
}

/* "" has none. */
static size_t list_length(const char *list)
{
	size_t n = *list != '\0';

	for (; *list != '\0'; list++)
		n += *list == ',';
	return n;
}

/* Takes the first element off the list; "" when there is none. */
static char *take_element(const char **list)
{
	size_t len = strcspn(*list, ",");
	char *element = mem_copy_bytes(*list, len);

	*list += len;
	*list += **list == ',';
	return element;
}

static bool split(struct pghosts *hosts, const char *lists[PGHOSTS_PARTS], struct err *err)
{
	size_t names = list_length(lists[PGHOSTS_NAME]), addresses = list_length(lists[PGHOSTS_ADDRESS]);
	size_t ports = list_length(lists[PGHOSTS_PORT]), n = addresses > 0 ? addresses : names > 0 ? names : 1;
	const char *port = lists[PGHOSTS_PORT];

	if (names > 0 && names != n)
		return err_set(err, "%zu host names and %zu host addresses were given", names, n);
	if (ports > 1 && ports != n)
		return err_set(err, "%zu ports and %zu hosts were given", ports, n);
	hosts->list = MEM_NEW_ARRAY(n, struct pghost);
	for (hosts->n = 0; hosts->n < n; hosts->n++) {
		if (ports == 1)
			lists[PGHOSTS_PORT] = port; /* of all */
		for (int part = 0; part < PGHOSTS_PARTS; part++)
			hosts->list[hosts->n].parts[part] = take_element(&lists[part]);
	}
	return true;
}

bool pghosts_read(struct pghosts *hosts, const char *const *keywords, const char *const *values, struct err *err)
{
	PQconninfoOption *options = ask_libpq(keywords, values);
	const char *lists[PGHOSTS_PARTS];
	bool fit;

	*hosts = (struct pghosts){0};
	for (int part = 0; part < PGHOSTS_PARTS; part++)
		lists[part] = value_of(options, keyword_of[part]);
	fit = split(hosts, lists, err);
	PQconninfoFree(options);
	return fit;
}

static void clear(struct pghost *host)
{
	for (int part = 0; part < PGHOSTS_PARTS; part++)
		mem_free(host->parts[part]);
}

void pghosts_free(struct pghosts *hosts)
{
	for (size_t i = 0; i < hosts->n; i++)
		clear(&hosts->list[i]);
	mem_free(hosts->list);
	*hosts = (struct pghosts){0};
}

static bool is_address(const char *name)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *address = NULL;

	if (getaddrinfo(name, NULL, &hints, &address) != 0)
		return false;
	freeaddrinfo(address);
	return true;
}

const char *pghosts_name_to_look_up(const struct pghost *host)
{
	const char *name = host->parts[PGHOSTS_NAME];
	bool is_socket = *name == '/' || *name == '@';

	return *name == '\0' || is_socket || *host->parts[PGHOSTS_ADDRESS] != '\0' || is_address(name) ? NULL
												       : name;
}

void pghosts_replace(struct pghosts *hosts, size_t i, char *const *addresses, size_t n)
{
	struct pghost old = hosts->list[i], *place;
	size_t behind = hosts->n - i - 1;

	hosts->list = mem_resize(hosts->list, hosts->n + n, sizeof(*hosts->list));
	place = &hosts->list[i];
	memmove(place + n, place + 1, behind * sizeof(*place));
	for (size_t k = 0; k < n; k++) {
		place[k].parts[PGHOSTS_NAME] = mem_copy_string(old.parts[PGHOSTS_NAME]);
		place[k].parts[PGHOSTS_ADDRESS] = mem_copy_string(addresses[k]);
		place[k].parts[PGHOSTS_PORT] = mem_copy_string(old.parts[PGHOSTS_PORT]);
	}
	hosts->n += n - 1;
	clear(&old);
}

char *pghosts_list(const struct pghosts *hosts, enum pghosts_part part, size_t first)
{
	struct buf list = {0};

	for (size_t i = 0; i < hosts->n; i++) {
		if (i > 0)
			buf_add_char(&list, ',');
		buf_add_string(&list, hosts->list[(first + i) % hosts->n].parts[part]);
	}
	if (strspn(buf_text(&list), ",") == list.len)
		buf_clear(&list); /* not given at all */
	return buf_take(&list);
}
