/* instance: a host on which the relay runs, one process after the other; what happens to them. */
#ifndef OUTBOXD_SIMULATION_INSTANCE_H
#define OUTBOXD_SIMULATION_INSTANCE_H

#include "cluster.h"
#include "fakedb.h"
#include "people.h"

/* What all instances share. */
struct surroundings {
	struct sim *sim;
	const struct config_source *config; /* a process starts with these settings */
	struct fakedb *db;
	struct cluster *cluster;
	struct people *people;
	struct metrics *metrics;
};

struct instance;

/* Its first process starts a moment later. */
struct instance *instance_new(const struct surroundings *surroundings, int number);

/* Is there a process, and not suspended? Only then may one of these happen to it. */
bool instance_runs(const struct instance *instance);

/* NOTIFY. */
void instance_wake(struct instance *instance);

/* SIGKILL; another one is started after a while. */
void instance_crash(struct instance *instance);

/* SIGTERM, with a deadline; another one is started after a while. */
void instance_restart(struct instance *instance);

/* SIGHUP: a source with other settings starts, and those before it drain. */
void instance_reload(struct instance *instance);

/* SIGSTOP, and SIGCONT then. */
void instance_suspend(struct instance *instance, int64_t until_us);

/* A connection to the database is lost, a producer has to be replaced, or loses sight of the brokers. */
void instance_cut(struct instance *instance);
void instance_replace(struct instance *instance);
void instance_flap(struct instance *instance);

/* Its process drains, however long that takes, and none is started any more. True: there is none. */
void instance_stop(struct instance *instance);
bool instance_stopped(const struct instance *instance);

/* At once. */
void instance_end(struct instance *instance);

#endif
