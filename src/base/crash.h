/* crash: the moments at which tests let the process die, each a name and what has just happened. Between two of them lies
 * one step that another process, or a later start of this one, may find done or not done.
 *
 * Nothing is left of them in a program but the check of the name, unless it is compiled with OUTBOXD_CRASH_POINTS: then
 * each passage is counted, and OUTBOXD_CRASH=NAME:N ends the process by SIGKILL at the N-th (tests/rig/crash.c). */
#ifndef OUTBOXD_BASE_CRASH_H
#define OUTBOXD_BASE_CRASH_H

#define CRASH_POINTS(X)                                                                                       \
	/* claim */                                                                                           \
	X(TABLE_KNOWN, "the catalog was read and the statements are built")                                   \
	X(CLAIM_DUE, "a claim is about to be sent")                                                           \
	X(CLAIM_SENT, "a claim is on its way to the database")                                                \
	X(CLAIM_ANSWERED, "a claim has brought rows, which are not in memory yet")                            \
	X(CLAIM_ENTERED, "the rows of a claim are in memory")                                                 \
	X(CLAIM_LOST, "the connection was lost before the claim's answer")                                    \
	/* publish */                                                                                         \
	X(PUBLISH_DUE, "a row's record is composed and about to be handed over")                              \
	X(MESSAGE_QUEUED, "the library has taken the record")                                                 \
	X(PUBLISHED, "the row counts as in flight")                                                           \
	X(QUEUE_FULL, "the library takes no more for now")                                                    \
	X(TRIAL_PUBLISHED, "a row that was condemned with others is in flight alone")                         \
	/* report */                                                                                          \
	X(REPORT_ARRIVED, "the library's report is at hand, and nobody else knows of it")                     \
	X(REPORT_RECORDED, "the report stands in its row")                                                    \
	X(DELIVERED, "a good report is about to become an outcome")                                           \
	X(REFUSED, "a bad report was looked at first")                                                        \
	X(KEY_CONCLUDED, "all that was in flight of a key was refused, and it is decided")                    \
	X(BATCH_CONDEMNED, "the rows of a refused batch are to be tried alone")                               \
	X(ROW_FAILED, "a row is given up")                                                                    \
	X(ROW_DOOMED, "a row is given up, and its dead letter is due")                                        \
	X(LETTER_PUBLISHED, "a row's dead letter is in flight")                                               \
	X(LETTER_DELIVERED, "a dead letter is delivered, and its row is about to become failed")              \
	X(LETTER_SHORTENED, "a dead letter was too much for its topic, and goes on with less")                \
	X(TOPIC_REFUSED, "a topic has refused a row")                                                         \
	X(TOPIC_DEFERRED, "a row of a refused topic is put off untried")                                      \
	X(TOPIC_RECOVERED, "a topic takes rows again")                                                        \
	X(CLUSTER_REFUSED, "a row came back for the cluster's or the producer's sake")                        \
	/* retry and release */                                                                               \
	X(RETRY_DECIDED, "a row will be tried again, and that costs an attempt")                              \
	X(STAGE_RELEASED, "a row that was not handed over is given back")                                     \
	X(RELEASED_BEHIND, "a row is given back because one in front of it was not delivered")                \
	X(LEASE_SHORT, "a row is given back because its lease would not outlast a delivery")                  \
	/* settle */                                                                                          \
	X(SETTLE_DUE, "a settle is about to be sent")                                                         \
	X(SETTLE_SENT, "a settle is on its way to the database")                                              \
	X(SETTLE_ANSWERED, "a settle is committed, and its rows are in memory still")                         \
	X(SENT_WRITTEN, "a delivered row is marked")                                                          \
	X(RETRY_WRITTEN, "a row's retry stands in the table")                                                 \
	X(FAILURE_WRITTEN, "a row's failure stands in the table")                                             \
	X(RELEASE_WRITTEN, "a row's release stands in the table")                                             \
	X(SETTLE_FORGOTTEN, "the rows of a settle have left memory")                                          \
	X(SETTLE_LOST, "the connection was lost before the settle's answer")                                  \
	X(SETTLE_FENCED, "a row was no longer ours when it was settled")                                      \
	X(SETTLE_HALVED, "the database refused a settle for the data of one of its rows")                     \
	X(SETTLE_REFUSED, "the database refused what was to be written about one row")                        \
	X(SETTLE_GIVEN_UP, "a row is left to its lease, for the database takes no outcome of it")             \
	/* lease take-over */                                                                                 \
	X(TAKEN_OVER, "a row whose lease had run out is ours")                                                \
	X(SUSPECT_SENT, "a claim of one suspect row is on its way")                                           \
	X(SUSPECT_ENTERED, "a suspect row is in memory, alone")                                               \
	X(ATTEMPTS_EXPIRED, "a row was failed whose lease ran out in its last attempt")                       \
	/* the windows in which a row may be delivered twice: passed whenever one is counted */               \
	X(COUNTED_CRASH_RECOVERED, "outboxd_possible_duplicates_total{window=crash_recovered} has risen")     \
	X(COUNTED_LEASE_EXPIRED, "outboxd_possible_duplicates_total{window=lease_expired} has risen")         \
	X(COUNTED_PRODUCER_REPLACED, "outboxd_possible_duplicates_total{window=producer_replaced} has risen") \
	X(COUNTED_TIMED_OUT, "outboxd_possible_duplicates_total{window=timed_out} has risen")                 \
	/* outage and producer replacement */                                                                 \
	X(KAFKA_CAME, "a broker was reached")                                                                 \
	X(KAFKA_WENT, "no broker is reached any more")                                                        \
	X(OUTAGE_NOTICED, "a source stands still because Kafka is away")                                      \
	X(OUTAGE_LASTING, "a source asks back what the library has queued")                                   \
	X(OUTAGE_OVER, "a source goes on because Kafka is back")                                              \
	X(PRODUCER_MADE, "a producer was made")                                                               \
	X(PRODUCER_PURGED, "a producer was told to give back what it has")                                    \
	X(PRODUCER_ENDED, "a producer was destroyed, and what it never reported is unanswered")               \
	/* reconnect */                                                                                       \
	X(SESSION_OPENED, "a connection to the database stands, and nothing was asked yet")                   \
	X(SESSION_TIDIED, "a session is as it should be before requests")                                     \
	X(SESSION_LOST, "a connection to the database is gone, what was outstanding unanswered")              \
	X(LOSS_NOTICED, "a source writes all outcomes first because a connection was lost")                   \
	X(STATEMENT_FAILED, "the database has refused a statement, whoever sent it not knowing yet")          \
	X(LISTENER_AT_REST, "the listener waits for notifications")                                           \
	/* reload */                                                                                          \
	X(RELOAD_BEGUN, "SIGHUP has come, and the file was not looked at")                                    \
	X(RELOAD_READ, "the file is good, and nothing is changed by it yet")                                  \
	X(SOURCE_RETIRED, "a changed source has a successor, and drains beside it")                           \
	X(RELOAD_DONE, "exactly the sources of the file run")                                                 \
	X(SOURCE_BURIED, "a source that a reload has retired is gone")                                        \
	/* drain */                                                                                           \
	X(DRAIN_BEGUN, "a source was asked to drain")                                                         \
	X(DRAIN_LATE, "the drain's deadline has passed")                                                      \
	X(ROW_FORGOTTEN, "a row that may have been written is left to its lease")                             \
	X(DRAIN_DONE, "a source holds nothing any more")                                                      \
	X(LOOP_LEFT, "the loop has ended, and everything is still open")

enum crash_point {
#define CRASH_NAME(name, moment) CRASH_##name,
	CRASH_POINTS(CRASH_NAME)
#undef CRASH_NAME
};

#ifdef OUTBOXD_CRASH_POINTS
/* Counts the passage; does not return when it is the one to die at. */
void crash_pass(enum crash_point point);
#define CRASH_POINT(name) crash_pass(CRASH_##name)
#else
#define CRASH_POINT(name) ((void)CRASH_##name)
#endif

#endif
