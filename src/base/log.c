#include "base/log.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_PERIOD_MS 10000
#define LIMIT_ENTRIES 1000 /* classes are few; should a caller err, lines beyond are written, not remembered */

/* A repeating fault: what was written of it first, and how many came since. */
struct limited {
	char *key; /* event, a line end, class */
	char *event;
	enum log_level level;
	struct log_fact *facts;
	size_t n_facts;
	int64_t written_ms; /* CLOCK_MONOTONIC: a step of the wall clock changes nothing */
	int64_t suppressed;
	UT_hash_handle hh;
};

static struct {
	enum log_level level;
	enum log_format format; /* LOG_AUTO until the first line or log_configure has resolved it */
	bool colour, journal;
	struct buf line;
	struct limited *limited;
} logger = {.level = LOG_INFO};

static const struct {
	const char *name, *padded, *colour;
	int priority; /* syslog's, for the <N> that journald reads */
} levels[] = {
	[LOG_ERROR] = {"error", "ERROR", "\033[31m", 3},
	[LOG_WARN] = {"warn", "WARN ", "\033[33m", 4},
	[LOG_INFO] = {"info", "INFO ", "\033[32m", 6},
	[LOG_DEBUG] = {"debug", "DEBUG", "\033[90m", 7},
};

struct log_fact log_str(const char *name, const char *text)
{
	return (struct log_fact){
		.name = name, .text = text, .len = text == NULL ? 0 : strlen(text), .skip = text == NULL};
}

struct log_fact log_bytes(const char *name, const char *bytes, size_t len)
{
	return (struct log_fact){.name = name, .text = bytes, .len = len, .skip = bytes == NULL};
}

struct log_fact log_int(const char *name, int64_t number)
{
	return (struct log_fact){.name = name, .number = number};
}

/* systemd says which device and inode it reads from: stderr may have been redirected since. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t device, inode;
	struct stat status;

	return stream != NULL && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

static bool stderr_is_colourful(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && getenv("NO_COLOR") == NULL && term != NULL && strcmp(term, "dumb") != 0;
}

void log_configure(enum log_level level, enum log_format format)
{
	logger.level = level;
	logger.journal = stderr_is_journal();
	logger.format = format;
	if (format == LOG_AUTO)
		logger.format = !logger.journal && isatty(STDERR_FILENO) ? LOG_TEXT : LOG_LOGFMT;
	logger.colour = logger.format == LOG_TEXT && stderr_is_colourful();
}

bool log_enabled(enum log_level level)
{
	return level <= logger.level;
}

/* Escapes that JSON and logfmt share. C1 controls too: terminals obey them. */
static void add_escaped(struct buf *line, const char *text, size_t len)
{
	uint32_t code;
	size_t length;

	for (size_t at = 0; at < len; at += length) {
		length = utf8_read(text + at, len - at, &code);
		if (length == 0) {
			buf_add_string(line, "\xEF\xBF\xBD"); /* U+FFFD */
			length = 1;
		} else if (code == '"' || code == '\\') {
			buf_print(line, "\\%c", (int)code);
		} else if (code == '\n') {
			buf_add_string(line, "\\n");
		} else if (code < 0x20 || (code >= 0x7F && code < 0xA0)) {
			buf_print(line, "\\u%04x", (unsigned)code);
		} else {
			buf_add(line, text + at, length);
		}
	}
}

static bool needs_quotes(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7F ||
		    strchr("\"\\=", text[i]) != NULL)
			return true;
	return len == 0;
}

static void add_json_fact(struct buf *line, const struct log_fact *fact)
{
	buf_print(line, ",\"%s\":", fact->name);
	if (fact->text == NULL) {
		buf_print(line, "%" PRId64, fact->number);
		return;
	}
	buf_add_char(line, '"');
	add_escaped(line, fact->text, fact->len);
	buf_add_char(line, '"');
}

static void add_logfmt_fact(struct buf *line, const struct log_fact *fact)
{
	const char *quote;

	buf_print(line, " %s=", fact->name);
	if (fact->text == NULL) {
		buf_print(line, "%" PRId64, fact->number);
		return;
	}
	quote = needs_quotes(fact->text, fact->len) ? "\"" : "";
	buf_add_string(line, quote);
	add_escaped(line, fact->text, fact->len);
	buf_add_string(line, quote);
}

/* UTC with milliseconds, so that lines of several hosts sort. */
static void format_time(char *text, size_t size)
{
	struct timespec now;
	struct tm utc;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + len, size - len, ".%03ldZ", now.tv_nsec / 1000000);
}

static void add_head(struct buf *line, enum log_level level, const char *event)
{
	char time_text[64];

	format_time(time_text, sizeof(time_text));
	if (logger.journal)
		buf_print(line, "<%d>", levels[level].priority);
	if (logger.format == LOG_JSON)
		buf_print(line, "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\"", time_text, levels[level].name,
			  event);
	else if (logger.format == LOG_TEXT)
		buf_print(line, "%s %s%s%s event=%s", time_text, logger.colour ? levels[level].colour : "",
			  levels[level].padded, logger.colour ? "\033[0m" : "", event);
	else
		buf_print(line, "time=%s level=%s event=%s", time_text, levels[level].name, event);
}

/* A log that cannot be written must not stop the relay: the line is lost. */
static void write_stderr(const char *bytes, size_t len)
{
	ssize_t written;

	while (len > 0) {
		written = write(STDERR_FILENO, bytes, len);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return;
		bytes += written;
		len -= (size_t)written;
	}
}

void log_write(enum log_level level, const char *event, const struct log_fact *facts, size_t n_facts)
{
	if (!log_enabled(level))
		return;
	if (logger.format == LOG_AUTO)
		log_configure(logger.level, LOG_AUTO);
	buf_clear(&logger.line);
	add_head(&logger.line, level, event);
	for (size_t i = 0; i < n_facts; i++) {
		if (facts[i].skip)
			continue;
		if (logger.format == LOG_JSON)
			add_json_fact(&logger.line, &facts[i]);
		else
			add_logfmt_fact(&logger.line, &facts[i]);
	}
	buf_add_string(&logger.line, logger.format == LOG_JSON ? "}\n" : "\n");
	write_stderr(logger.line.bytes, logger.line.len);
}

static int64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void limited_free(struct limited *limited)
{
	HASH_DEL(logger.limited, limited);
	for (size_t i = 0; i < limited->n_facts; i++) {
		mem_free((char *)limited->facts[i].name);
		mem_free((char *)limited->facts[i].text);
	}
	mem_free(limited->facts);
	mem_free(limited->event);
	mem_free(limited->key);
	mem_free(limited);
}

/* Keeps copies, with room for the count as one more fact. Takes the key. */
static void limited_add(char *key, enum log_level level, const char *event, const struct log_fact *facts,
			size_t n_facts)
{
	struct limited *limited = MEM_NEW(struct limited);

	limited->key = key;
	limited->event = mem_copy_string(event);
	limited->level = level;
	limited->facts = MEM_NEW_ARRAY(n_facts + 1, struct log_fact);
	limited->n_facts = n_facts;
	for (size_t i = 0; i < n_facts; i++) {
		limited->facts[i] = facts[i];
		limited->facts[i].name = mem_copy_string(facts[i].name);
		if (facts[i].text != NULL)
			limited->facts[i].text = mem_copy_bytes(facts[i].text, facts[i].len);
	}
	limited->written_ms = monotonic_ms();
	HASH_ADD_KEYPTR(hh, logger.limited, limited->key, strlen(limited->key), limited);
}

static void write_sum(struct limited *limited)
{
	limited->facts[limited->n_facts] = log_int("suppressed", limited->suppressed);
	log_write(limited->level, limited->event, limited->facts, limited->n_facts + 1);
	limited->suppressed = 0;
	limited->written_ms = monotonic_ms();
}

void log_write_limited(enum log_level level, const char *event, const char *class, const struct log_fact *facts,
		       size_t n_facts)
{
	struct limited *limited;
	struct buf key = {0};

	if (!log_enabled(level))
		return;
	buf_print(&key, "%s\n%s", event, class);
	HASH_FIND(hh, logger.limited, key.bytes, key.len, limited);
	if (limited != NULL && limited->suppressed == 0 &&
	    monotonic_ms() - limited->written_ms >= LIMIT_PERIOD_MS) {
		limited_free(limited);
		limited = NULL;
	}
	if (limited != NULL) {
		limited->suppressed++;
		buf_free(&key);
		return;
	}
	log_write(level, event, facts, n_facts);
	if (HASH_COUNT(logger.limited) < LIMIT_ENTRIES)
		limited_add(buf_take(&key), level, event, facts, n_facts);
	buf_free(&key);
}

void log_flush_limited(bool all)
{
	struct limited *limited, *next;
	int64_t now_ms = monotonic_ms();

	HASH_ITER (hh, logger.limited, limited, next) {
		if (!all && now_ms - limited->written_ms < LIMIT_PERIOD_MS)
			continue;
		if (limited->suppressed > 0)
			write_sum(limited);
		else
			limited_free(limited);
	}
}
