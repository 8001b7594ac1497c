/* fakedb: the other side of io/db.h: a PostgreSQL server with one table, its connections, and their faults. */
#ifndef OUTBOXD_SIMULATION_FAKEDB_H
#define OUTBOXD_SIMULATION_FAKEDB_H

#include "checker.h"

struct fakedb;

/* templates: the columns that follow those of a claim. */
struct fakedb *fakedb_new(struct sim *sim, struct sql_templates templates, struct table *table);

/* A pool of connections for one process; freed with the history. */
struct dbpool *fakedb_pool(struct fakedb *db, struct process *process, int connections);

/* The process is gone: no answer will be given; what the server has goes on or not. */
void fakedb_leave(struct dbpool *pool);

/* One connection is lost now, or all of all pools, and none comes back before until_us. */
void fakedb_cut(struct dbpool *pool);
void fakedb_restart(struct fakedb *db, int64_t until_us);

/* All statements take this much longer until then. */
void fakedb_slow(struct fakedb *db, int64_t extra_us, int64_t until_us);

/* Privileges are revoked until then: statements on the table are refused with class 42. */
void fakedb_revoke(struct fakedb *db, int64_t until_us);

/* Its clock leaps forward, or back: leases end early, what waits becomes due late. */
void fakedb_leap(struct fakedb *db, int64_t by_us);

/* All of that is over (a clock stays where it is). */
void fakedb_calm(struct fakedb *db);

#endif
