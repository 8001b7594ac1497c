#include "config/value.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	int64_t worth;
};

/* Largest first. */
static const struct unit durations[] = {
	{"d", INT64_C(86400000000)}, {"h", INT64_C(3600000000)}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}};
static const struct unit sizes[] = {
	{"TiB", INT64_C(1) << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static size_t name_length(const char *text)
{
	size_t len = 0;

	while (text[len] == '_' || isalpha((unsigned char)text[len]) ||
	       (len > 0 && isdigit((unsigned char)text[len])))
		len++;
	return len;
}

static bool add_variable(struct buf *out, const char *name, size_t name_len, const char *fallback,
			 size_t fallback_len, struct err *err)
{
	char terminated[256];
	const char *value;

	if (name_len >= sizeof(terminated))
		return err_set(err, "a variable's name is longer than %zu bytes", sizeof(terminated) - 1);
	memcpy(terminated, name, name_len);
	terminated[name_len] = '\0';
	value = getenv(terminated);
	if (value == NULL && fallback == NULL)
		return err_set(err, "the environment variable %s is not set (${%s:-default} would have a default)",
			       terminated, terminated);
	if (fallback != NULL && (value == NULL || value[0] == '\0'))
		buf_add(out, fallback, fallback_len);
	else
		buf_add_string(out, value);
	return true;
}

/* text is behind `${`. Moves it behind the `}`. */
static bool expand_one(const char **text, struct buf *out, struct err *err)
{
	const char *name = *text, *fallback = NULL, *end;
	size_t name_len = name_length(name);

	end = name + name_len;
	if (name_len > 0 && strncmp(end, ":-", 2) == 0) {
		fallback = end + 2;
		end = fallback + strcspn(fallback, "}");
	}
	if (name_len == 0 || *end != '}')
		return err_set(err, "${ must go on as NAME} or NAME:-default}; $${ is a literal ${");
	*text = end + 1;
	return add_variable(out, name, name_len, fallback, fallback == NULL ? 0 : (size_t)(end - fallback), err);
}

bool value_expand(const char *text, struct buf *out, struct err *err)
{
	while (*text != '\0') {
		if (text[0] == '$' && text[1] == '{') {
			text += 2;
			if (!expand_one(&text, out, err))
				return false;
			continue;
		}
		if (text[0] == '$' && text[1] == '$')
			text++;
		buf_add_char(out, *text++);
	}
	return true;
}

/* Reads digits; *end is behind them. False: none, a leading zero, or more than an int64_t holds. */
static bool read_digits(const char *text, int64_t *number, const char **end)
{
	int64_t value = 0;
	int digit;

	if (!isdigit((unsigned char)text[0]) || (text[0] == '0' && isdigit((unsigned char)text[1])))
		return false;
	for (; isdigit((unsigned char)*text); text++) {
		digit = *text - '0';
		if (value > (INT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*number = value;
	*end = text;
	return true;
}

bool value_integer(const char *text, int64_t *number)
{
	const char *end;

	return read_digits(text, number, &end) && *end == '\0';
}

bool value_number(const char *text, double *number)
{
	const char *end;
	int64_t whole, parts = 0, scale = 1;

	if (!read_digits(text, &whole, &end))
		return false;
	if (*end == '.') {
		do {
			end++;
			if (!isdigit((unsigned char)*end) || scale == 1000000)
				return false;
			parts = parts * 10 + (*end - '0');
			scale *= 10;
		} while (end[1] != '\0');
		end++;
	}
	*number = (double)whole + (double)parts / (double)scale;
	return *end == '\0';
}

static bool with_unit(const char *text, const struct unit *units, size_t n_units, int64_t *out)
{
	const char *end;
	int64_t number;

	if (!read_digits(text, &number, &end))
		return false;
	for (size_t i = 0; i < n_units; i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		if (number > INT64_MAX / units[i].worth)
			return false;
		*out = number * units[i].worth;
		return true;
	}
	return false;
}

bool value_duration(const char *text, int64_t *us)
{
	return with_unit(text, durations, COUNT(durations), us);
}

bool value_size(const char *text, int64_t *bytes)
{
	return with_unit(text, sizes, COUNT(sizes), bytes);
}

static void print_with_unit(struct buf *out, int64_t value, const struct unit *units, size_t n_units)
{
	size_t i = 0;

	while (i + 1 < n_units && (value < units[i].worth || value % units[i].worth != 0))
		i++;
	buf_print(out, "%" PRId64 "%s", value / units[i].worth, units[i].name);
}

void value_print_duration(struct buf *out, int64_t us)
{
	if (us == 60000000)
		buf_add_string(out, "60s");
	else
		print_with_unit(out, us, durations, COUNT(durations));
}

void value_print_size(struct buf *out, int64_t bytes)
{
	print_with_unit(out, bytes, sizes, COUNT(sizes));
}

void value_print_number(struct buf *out, double number)
{
	buf_print(out, "%.6f", number);
	while (out->bytes[out->len - 1] == '0')
		out->bytes[--out->len] = '\0';
	if (out->bytes[out->len - 1] == '.')
		out->bytes[--out->len] = '\0';
}

#define DISTANCE_MAX_LENGTH 63

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Letters to change, add, leave out or swap with their neighbour (optimal string alignment), in three rows. */
static size_t alignment(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][DISTANCE_MAX_LENGTH + 1], *before = rows[0], *above = rows[1], *row = rows[2], *free_row;

	for (size_t j = 0; j <= b_len; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		free_row = before;
		before = above;
		above = row;
		row = free_row;
	}
	return above[b_len];
}

size_t value_distance(const char *text, const char *candidate)
{
	size_t text_len = strlen(text), candidate_len = strlen(candidate), distance;

	if (text_len > DISTANCE_MAX_LENGTH || candidate_len > DISTANCE_MAX_LENGTH)
		return SIZE_MAX;
	distance = alignment(text, text_len, candidate, candidate_len);
	return distance <= (text_len > 3 ? text_len / 3 : 1) ? distance : SIZE_MAX;
}
