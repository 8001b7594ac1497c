/* The binary form of a request's parameters, read as the server reads it. */
#include "statement.h"

#include "core/pgarray.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(struct sim *sim, struct slice cell)
{
	return cell.bytes == NULL ? NULL : arena_copy_bytes(sim->arena, cell.bytes, cell.len);
}

static int64_t interval_of(struct slice cell)
{
	assert(cell.len == 16);
	return pg_get_int8((struct slice){cell.bytes, 8}) +
	       86400 * SECOND * pg_get_int4((struct slice){cell.bytes + 8, 4});
}

/* The elements of a one-dimensional array. */
static size_t elements_of(struct sim *sim, struct slice array, uint32_t oid, struct slice **elements)
{
	const char *at;
	size_t n;

	assert(array.bytes != NULL && array.len >= 12);
	at = array.bytes + 12;
	assert((uint32_t)pg_get_int4((struct slice){array.bytes + 8, 4}) == oid);
	if (pg_get_int4((struct slice){array.bytes, 4}) == 0)
		return 0;
	assert(pg_get_int4((struct slice){array.bytes, 4}) == 1);
	n = (size_t)pg_get_int4((struct slice){at, 4});
	at += 8;
	*elements = arena_take(sim->arena, n + 1, sizeof(struct slice));
	for (size_t i = 0; i < n; i++) {
		int32_t len = pg_get_int4((struct slice){at, 4});

		at += 4;
		(*elements)[i] = len < 0 ? SLICE_NULL : (struct slice){at, (size_t)len};
		at += len < 0 ? 0 : len;
	}
	assert(at == array.bytes + array.len);
	return n;
}

static enum row_state state_of(const struct config_source *config, struct slice label)
{
	int state = 0;

	while (state < ROW_STATES && !slice_equal(label, slice_of(config->states[state])))
		state++;
	assert(state < ROW_STATES);
	return (enum row_state)state;
}

static struct outcome *outcomes_of(struct sim *sim, struct params *params, size_t n)
{
	if (params->outcomes == NULL) {
		params->outcomes = arena_take(sim->arena, n + 1, sizeof(struct outcome));
		params->n_outcomes = n;
	}
	assert(n == params->n_outcomes);
	return params->outcomes;
}

static void read_outcomes(struct sim *sim, const struct config_source *config, enum sql_param param,
			  struct slice value, struct params *params)
{
	static const uint32_t oids[SQL_PARAMS] = {
		[SQL_P_IDS] = PGOID_TEXT,	 [SQL_P_LEASES] = PGOID_TIMESTAMPTZ, [SQL_P_STATES] = PGOID_TEXT,
		[SQL_P_DELAYS] = PGOID_INTERVAL, [SQL_P_BACKS] = PGOID_INT4,	     [SQL_P_ERRORS] = PGOID_TEXT,
		[SQL_P_OWNERS] = PGOID_TEXT,
	};
	struct slice *cells = NULL;
	size_t n = elements_of(sim, value, oids[param], &cells);
	struct outcome *outcomes = outcomes_of(sim, params, n);

	for (size_t i = 0; i < n; i++) {
		struct outcome *outcome = &outcomes[i];

		if (param == SQL_P_IDS)
			outcome->id = strtoll(text_of(sim, cells[i]), NULL, 10);
		else if (param == SQL_P_LEASES)
			outcome->lease = pg_get_int8(cells[i]);
		else if (param == SQL_P_STATES)
			outcome->state = state_of(config, cells[i]);
		else if (param == SQL_P_DELAYS)
			outcome->delay_us = interval_of(cells[i]);
		else if (param == SQL_P_BACKS)
			outcome->back = pg_get_int4(cells[i]);
		else if (param == SQL_P_ERRORS)
			outcome->error = text_of(sim, cells[i]);
		else
			outcome->owner = text_of(sim, cells[i]);
	}
}

/* Delivered rows: lease and owner of a claim count for its stretch of ids. */
static void read_sent(struct sim *sim, const struct slice values[SQL_PARAMS], struct params *params)
{
	struct slice *ids = NULL, *leases = NULL, *firsts = NULL, *lasts = NULL, *owners = NULL;
	size_t n = elements_of(sim, values[SQL_P_IDS], PGOID_TEXT, &ids);
	size_t claims = elements_of(sim, values[SQL_P_LEASES], PGOID_TIMESTAMPTZ, &leases);
	size_t n_firsts = elements_of(sim, values[SQL_P_FIRSTS], PGOID_INT4, &firsts);
	size_t n_lasts = elements_of(sim, values[SQL_P_LASTS], PGOID_INT4, &lasts);
	size_t n_owners = elements_of(sim, values[SQL_P_OWNERS], PGOID_TEXT, &owners);
	struct outcome *outcomes = outcomes_of(sim, params, n);
	size_t at = 0;

	assert(n_firsts == claims && n_lasts == claims && n_owners == claims);
	for (size_t i = 0; i < claims; i++) {
		assert((size_t)pg_get_int4(firsts[i]) == at + 1);
		for (; at < (size_t)pg_get_int4(lasts[i]); at++) {
			outcomes[at].id = strtoll(text_of(sim, ids[at]), NULL, 10);
			outcomes[at].lease = pg_get_int8(leases[i]);
			outcomes[at].owner = text_of(sim, owners[i]);
			outcomes[at].state = ROW_SENT;
		}
	}
	assert(at == n);
}

static void read_hot(struct sim *sim, enum sql_param param, struct slice value, struct params *params)
{
	struct slice *cells = NULL;
	size_t n = elements_of(sim, value, param == SQL_P_HOT_KEYS ? PGOID_TEXT : PGOID_INT4, &cells);

	if (param == SQL_P_HOT_KEYS)
		params->hot_keys = arena_take(sim->arena, n + 1, sizeof(const char *));
	else
		params->hot_held = arena_take(sim->arena, n + 1, sizeof(int32_t));
	for (size_t i = 0; i < n; i++) {
		if (param == SQL_P_HOT_KEYS)
			params->hot_keys[i] = text_of(sim, cells[i]);
		else
			params->hot_held[i] = pg_get_int4(cells[i]);
	}
	params->n_hot = n;
}

static void read_one(struct sim *sim, const struct config_source *config, enum sql_param param, struct slice value,
		     struct params *params)
{
	switch (param) {
	case SQL_P_MAX_ATTEMPTS:
		params->max_attempts = pg_get_int4(value);
		break;
	case SQL_P_LIMIT:
		params->limit = pg_get_int4(value);
		break;
	case SQL_P_MAX_BYTES:
		params->max_bytes = pg_get_int8(value);
		break;
	case SQL_P_OWNER:
		params->owner = text_of(sim, value);
		break;
	case SQL_P_SHARE:
		params->share = pg_get_int4(value);
		break;
	case SQL_P_HOT_KEYS:
	case SQL_P_HOT_HELD:
		read_hot(sim, param, value, params);
		break;
	case SQL_P_MAX_IN_FLIGHT:
		params->max_in_flight = pg_get_int4(value);
		break;
	case SQL_P_LEASE:
		params->lease_us = interval_of(value);
		break;
	case SQL_P_PARK_MAX:
		params->park_max_us = interval_of(value);
		break;
	case SQL_P_FAR_DUE:
		params->far_due = pg_get_int8(value);
		break;
	case SQL_P_FAR_ID:
		params->far_id = strtoll(text_of(sim, value), NULL, 10);
		break;
	case SQL_P_IDS:
	case SQL_P_LEASES:
	case SQL_P_STATES:
	case SQL_P_DELAYS:
	case SQL_P_BACKS:
	case SQL_P_ERRORS:
	case SQL_P_OWNERS:
		read_outcomes(sim, config, param, value, params);
		break;
	case SQL_P_FIRSTS: /* of read_sent */
	case SQL_P_LASTS:
	case SQL_P_TABLE:
	case SQL_P_KEY_COLUMN:
	default: /* of statements that a relay never sends */
		break;
	}
}

void params_read(struct sim *sim, const struct config_source *config, const struct sql_statement *text,
		 const struct slice *values, struct params *params)
{
	struct slice by_name[SQL_PARAMS] = {SLICE_NULL};

	for (int i = 0; i < text->n_params; i++)
		by_name[text->params[i]] = values[i];
	if (by_name[SQL_P_RESULT_TIMEOUT].bytes != NULL)
		params->result_timeout_us = interval_of(by_name[SQL_P_RESULT_TIMEOUT]);
	if (text->kind == SQL_SETTLE_SENT) {
		read_sent(sim, by_name, params);
		return;
	}
	for (int i = 0; i < text->n_params; i++)
		read_one(sim, config, text->params[i], values[i], params);
}
