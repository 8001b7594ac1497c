/* resolve: the addresses of host names, looked up inside the loop by c-ares, as /etc/hosts, nsswitch.conf and resolv.conf
 * say at that moment. Other sources that nsswitch.conf may name, such as mdns, are not asked. */
#ifndef OUTBOXD_IO_RESOLVE_H
#define OUTBOXD_IO_RESOLVE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct ev_loop;
struct resolve;

struct resolve_answer {
	char **addresses; /* numeric, in the order to try them */
	size_t n;
	struct err error; /* why there is none; "" while n > 0 */
};

/* One answer for each name; borrowed until resolve_free, which may be called from here. */
typedef void resolve_done_fn(void *context, const struct resolve_answer *answers);

/* Looks all names up at once; a NULL among them is passed over. Names are borrowed until resolve_free. on_done comes once,
 * from the loop: when each has its answer, or after limit_us; what is not known by then has an error. */
struct resolve *resolve_new(struct ev_loop *loop, const char *const *names, size_t n, int64_t limit_us,
			    resolve_done_fn *on_done, void *context);

/* Without on_done when that has not come yet. NULL is fine. */
void resolve_free(struct resolve *resolve);

#endif
