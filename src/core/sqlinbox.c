/* The DDL of the table by which a consumer knows what it has done already: printed by `schema --inbox`. It is the consumer's,
 * perhaps in another database; the relay never sees it. */
#include "core/sql.h"

void sql_print_inbox(FILE *out)
{
	fputs("-- What consumers have done already: a consumer writes the event's id here in the transaction that has the event's\n"
	      "-- effect. Run this in the database of the effects, as the role that owns their tables.\n"
	      "BEGIN;\n\n"
	      "CREATE TABLE inbox (\n"
	      "  consumer    text NOT NULL,\n"
	      "  event_id    text NOT NULL,\n"
	      "  received_at timestamptz NOT NULL DEFAULT now(),\n"
	      "  PRIMARY KEY (consumer, event_id)\n"
	      ");\n\n"
	      "COMMENT ON TABLE inbox IS 'Events whose effects are in this database: a repeat finds its entry and has none.';\n"
	      "COMMENT ON COLUMN inbox.consumer IS 'Who had the effect, such as the consumer group: several may share the table.';\n"
	      "COMMENT ON COLUMN inbox.event_id IS 'The Kafka header event_id.';\n"
	      "COMMENT ON COLUMN inbox.received_at IS 'For deleting what is old.';\n\n"
	      "-- Small, for rows are appended in the order of time.\n"
	      "CREATE INDEX inbox_received_at ON inbox USING brin (received_at);\n\n"
	      "-- In the transaction of the effect:\n"
	      "--   INSERT INTO inbox (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;\n"
	      "-- One row inserted: have the effect. None: it is a repeat, have none. COMMIT either way; then commit the offset.\n"
	      "--\n"
	      "-- Keep entries for as long as a repeat may come: the retention of the topic, if offsets may be set back, and\n"
	      "-- outages of the consumer and the relay on top. From time to time, such as each hour:\n"
	      "--   DELETE FROM inbox WHERE received_at < now() - interval '14 days';\n\n"
	      "-- GRANT SELECT, INSERT, DELETE ON inbox TO the_consumer;\n\n"
	      "COMMIT;\n",
	      out);
}
