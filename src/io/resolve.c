#include "io/resolve.h"

#include "base/list.h"
#include "base/mem.h"

#include <ares.h>
#include <ev.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#define TRIES_WITHIN_LIMIT 4 /* a name server that is silent for so long a part of it is not the only one asked */

/* One of c-ares' sockets. */
struct wire {
	struct list_node node;
	struct resolve *resolve;
	ev_io io;
};

struct lookup {
	struct resolve *resolve;
	struct resolve_answer *answer;
	const char *name;
};

struct resolve {
	struct ev_loop *loop;
	ares_channel channel; /* NULL: it could not be made */
	struct list wires;
	ev_timer turn;	/* when c-ares wants to try again, or there is an end to tell */
	ev_timer limit; /* of the whole */
	size_t n, pending;
	struct lookup *lookups;
	struct resolve_answer *answers;
	resolve_done_fn *on_done;
	void *context;
};

static void plan(struct resolve *resolve)
{
	struct timeval wait = {0};

	ev_timer_stop(resolve->loop, &resolve->turn);
	if (resolve->pending > 0 && ares_timeout(resolve->channel, NULL, &wait) == NULL)
		return;
	ev_timer_set(&resolve->turn, (double)wait.tv_sec + (double)wait.tv_usec / 1e6, 0.);
	ev_timer_start(resolve->loop, &resolve->turn);
}

/* The end of a turn; it may free all. */
static void conclude(struct resolve *resolve)
{
	if (resolve->pending > 0) {
		plan(resolve);
		return;
	}
	ev_timer_stop(resolve->loop, &resolve->turn);
	ev_timer_stop(resolve->loop, &resolve->limit);
	resolve->on_done(resolve->context, resolve->answers);
}

static void on_io(struct ev_loop *loop, ev_io *watcher, int events)
{
	struct resolve *resolve = ((struct wire *)watcher->data)->resolve;
	int fd = watcher->fd; /* the watcher may be gone after the first of these calls */

	(void)loop;
	ares_process_fd(resolve->channel, events & EV_READ ? fd : ARES_SOCKET_BAD,
			events & EV_WRITE ? fd : ARES_SOCKET_BAD);
	conclude(resolve);
}

static void on_turn(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct resolve *resolve = watcher->data;

	(void)loop;
	(void)events;
	if (resolve->pending > 0)
		ares_process_fd(resolve->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	conclude(resolve);
}

/* Each lookup then ends as cancelled. */
static void on_limit(struct ev_loop *loop, ev_timer *watcher, int events)
{
	struct resolve *resolve = watcher->data;

	(void)loop;
	(void)events;
	if (resolve->pending > 0)
		ares_cancel(resolve->channel);
	conclude(resolve);
}

static struct wire *find_wire(struct resolve *resolve, ares_socket_t fd)
{
	struct list_node *node = list_first(&resolve->wires);

	for (; node != NULL; node = list_next(&resolve->wires, node))
		if (LIST_OWNER(node, struct wire, node)->io.fd == fd)
			return LIST_OWNER(node, struct wire, node);
	return NULL;
}

static struct wire *add_wire(struct resolve *resolve, ares_socket_t fd)
{
	struct wire *wire = MEM_NEW(struct wire);

	wire->resolve = resolve;
	ev_io_init(&wire->io, on_io, fd, EV_READ);
	wire->io.data = wire;
	list_append(&resolve->wires, &wire->node);
	return wire;
}

/* What c-ares waits for at a socket; nothing: it is about to close it. */
static void on_socket(void *context, ares_socket_t fd, int readable, int writable)
{
	struct resolve *resolve = context;
	struct wire *wire = find_wire(resolve, fd);
	int events = (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0);

	if (wire == NULL && events != 0)
		wire = add_wire(resolve, fd);
	if (wire == NULL)
		return;
	ev_io_stop(resolve->loop, &wire->io);
	if (events != 0) {
		ev_io_set(&wire->io, fd, events);
		ev_io_start(resolve->loop, &wire->io);
		return;
	}
	list_remove(&resolve->wires, &wire->node);
	mem_free(wire);
}

static void take_addresses(struct resolve_answer *answer, const struct ares_addrinfo *found)
{
	const struct ares_addrinfo_node *node;
	char text[NI_MAXHOST];

	for (node = found->nodes; node != NULL; node = node->ai_next) {
		if (getnameinfo(node->ai_addr, node->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) != 0)
			continue;
		answer->addresses = mem_resize(answer->addresses, answer->n + 1, sizeof(*answer->addresses));
		answer->addresses[answer->n++] = mem_copy_string(text);
	}
}

static void on_found(void *context, int status, int timeouts, struct ares_addrinfo *found)
{
	struct lookup *lookup = context;
	struct resolve_answer *answer = lookup->answer;

	(void)timeouts;
	lookup->resolve->pending--;
	if (status == ARES_SUCCESS)
		take_addresses(answer, found);
	if (found != NULL)
		ares_freeaddrinfo(found);
	if (answer->n > 0)
		return;
	err_set(&answer->error, "the host name \"%s\" cannot be looked up: %s", lookup->name,
		status == ARES_ECANCELLED ? "no name server answers"
		: status == ARES_SUCCESS  ? "it has no address"
					  : ares_strerror(status));
}

/* Files are read now; name servers are asked from the loop. */
static void open_channel(struct resolve *resolve, int64_t limit_us)
{
	struct ares_options options = {.timeout = (int)(limit_us / 1000 / TRIES_WITHIN_LIMIT),
				       .sock_state_cb = on_socket,
				       .sock_state_cb_data = resolve};
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	if (status == ARES_SUCCESS)
		status =
			ares_init_options(&resolve->channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_SOCK_STATE_CB);
	if (status == ARES_SUCCESS)
		return;
	resolve->channel = NULL;
	for (size_t i = 0; i < resolve->n; i++)
		err_set(&resolve->answers[i].error, "names cannot be looked up: %s", ares_strerror(status));
}

static void ask(struct resolve *resolve, const char *const *names)
{
	const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

	for (size_t i = 0; i < resolve->n; i++) {
		if (names[i] == NULL || resolve->channel == NULL)
			continue;
		resolve->lookups[i] = (struct lookup){resolve, &resolve->answers[i], names[i]};
		resolve->pending++;
		ares_getaddrinfo(resolve->channel, names[i], NULL, &hints, on_found, &resolve->lookups[i]);
	}
}

struct resolve *resolve_new(struct ev_loop *loop, const char *const *names, size_t n, int64_t limit_us,
			    resolve_done_fn *on_done, void *context)
{
	struct resolve *resolve = MEM_NEW(struct resolve);

	resolve->loop = loop;
	resolve->n = n;
	resolve->lookups = MEM_NEW_ARRAY(n, struct lookup);
	resolve->answers = MEM_NEW_ARRAY(n, struct resolve_answer);
	resolve->on_done = on_done;
	resolve->context = context;
	list_init(&resolve->wires);
	ev_timer_init(&resolve->turn, on_turn, 0., 0.);
	ev_timer_init(&resolve->limit, on_limit, (double)limit_us / 1e6, 0.);
	ev_set_priority(&resolve->limit, -1); /* what has arrived in time counts */
	resolve->turn.data = resolve->limit.data = resolve;
	open_channel(resolve, limit_us);
	ev_timer_start(loop, &resolve->limit);
	ask(resolve, names);
	plan(resolve);
	return resolve;
}

void resolve_free(struct resolve *resolve)
{
	if (resolve == NULL)
		return;
	if (resolve->channel != NULL)
		ares_destroy(resolve->channel); /* closes its sockets, so that the wires go */
	ares_library_cleanup();
	ev_timer_stop(resolve->loop, &resolve->turn);
	ev_timer_stop(resolve->loop, &resolve->limit);
	for (size_t i = 0; i < resolve->n; i++) {
		for (size_t k = 0; k < resolve->answers[i].n; k++)
			mem_free(resolve->answers[i].addresses[k]);
		mem_free(resolve->answers[i].addresses);
	}
	mem_free(resolve->lookups);
	mem_free(resolve->answers);
	mem_free(resolve);
}
