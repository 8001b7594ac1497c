#include "config/secret.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_MAX_BYTES 65536
#define HIDDEN "***"

static bool find_file(const char *file, struct buf *path, struct err *err)
{
	const char *directory = getenv("CREDENTIALS_DIRECTORY");

	if (strchr(file, '/') != NULL) {
		buf_add_string(path, file);
		return true;
	}
	if (directory == NULL || directory[0] == '\0')
		return err_set(err,
			       "password file %s: a name without a slash is looked up in $CREDENTIALS_DIRECTORY, "
			       "which is not set",
			       file);
	buf_print(path, "%s/%s", directory, file);
	return true;
}

static bool read_all(int fd, const char *path, struct buf *content, struct err *err)
{
	char bytes[4096];
	ssize_t got;

	while ((got = read(fd, bytes, sizeof(bytes))) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(err, "password file %s: %s", path, strerror(errno));
		buf_add(content, bytes, (size_t)got);
		if (content->len > SECRET_MAX_BYTES)
			return err_set(err, "password file %s is larger than %d bytes", path, SECRET_MAX_BYTES);
	}
	return true;
}

static void cut_line_end(struct buf *content)
{
	if (content->len > 0 && content->bytes[content->len - 1] == '\n')
		content->len--;
	if (content->len > 0 && content->bytes[content->len - 1] == '\r')
		content->len--;
	if (content->bytes != NULL)
		content->bytes[content->len] = '\0';
}

static bool read_path(const char *path, struct buf *password, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool good;

	if (fd < 0)
		return err_set(err, "password file %s: %s", path, strerror(errno));
	good = read_all(fd, path, password, err);
	close(fd);
	if (!good)
		return false;
	cut_line_end(password);
	if (password->len == 0)
		return err_set(err, "password file %s is empty", path);
	if (memchr(password->bytes, '\0', password->len) != NULL)
		return err_set(err, "password file %s holds a NUL byte", path);
	return true;
}

bool secret_read(const char *file, struct buf *password, struct err *err)
{
	struct buf path = {0};
	bool good;

	buf_clear(password);
	good = find_file(file, &path, err) && read_path(buf_text(&path), password, err);
	if (!good)
		buf_clear(password);
	buf_free(&path);
	return good;
}

bool secret_is_property(const char *name)
{
	/* Parts of names, for newer versions of the library bring new ones. */
	static const char *const parts[] = {"passw",   "passphrase",	     "secret",	  "token",
					    "key.pem", "oauthbearer.config", "kinit.cmd", "ssl_key"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]) != NULL)
			return true;
	return false;
}

/* libpq's keywords, as of version 18. A word that is none of them is taken for a piece of a password with a space or
 * an ampersand in it, so then nothing is shown. */
static const char *const keywords[] = {
	"application_name",
	"channel_binding",
	"client_encoding",
	"connect_timeout",
	"dbname",
	"fallback_application_name",
	"gssdelegation",
	"gssencmode",
	"gsslib",
	"host",
	"hostaddr",
	"keepalives",
	"keepalives_count",
	"keepalives_idle",
	"keepalives_interval",
	"krbsrvname",
	"load_balance_hosts",
	"max_protocol_version",
	"min_protocol_version",
	"oauth_client_id",
	"oauth_client_secret",
	"oauth_issuer",
	"oauth_scope",
	"options",
	"passfile",
	"password",
	"port",
	"replication",
	"require_auth",
	"requirepeer",
	"requiressl",
	"scram_client_key",
	"scram_server_key",
	"service",
	"servicefile",
	"ssl",
	"ssl_max_protocol_version",
	"ssl_min_protocol_version",
	"sslcert",
	"sslcertmode",
	"sslcompression",
	"sslcrl",
	"sslcrldir",
	"sslkey",
	"sslkeylogfile",
	"sslmode",
	"sslnegotiation",
	"sslpassword",
	"sslrootcert",
	"sslsni",
	"target_session_attrs",
	"tcp_user_timeout",
	"user",
};

static bool is_keyword(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
		if (strlen(keywords[i]) == len && memcmp(keywords[i], word, len) == 0)
			return true;
	return false;
}

static bool is_secret_keyword(const char *word, size_t len)
{
	static const char *const secrets[] = {"password", "sslpassword", "oauth_client_secret", "scram_client_key",
					      "scram_server_key"};

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (strlen(secrets[i]) == len && memcmp(secrets[i], word, len) == 0)
			return true;
	return false;
}

static void add_value(struct buf *out, const char *keyword, size_t keyword_len, const char *value, size_t value_len)
{
	if (is_secret_keyword(keyword, keyword_len))
		buf_add_string(out, HIDDEN);
	else
		buf_add(out, value, value_len);
}

/* Length of a value of the key=value form, quotes and backslashes included; false when a quote is left open. */
static bool value_length(const char *at, size_t *len)
{
	const char *start = at, *stops = *at == '\'' ? "\\'" : "\\ \t\r\n\f\v";

	at += *at == '\'' ? 1 : 0;
	while (*(at += strcspn(at, stops)) == '\\')
		at += at[1] == '\0' ? 1 : 2;
	if (*start == '\'' && *at++ != '\'')
		return false;
	*len = (size_t)(at - start);
	return true;
}

/* An equals sign in a value is that of another pair, swallowed by a misplaced quote or space; options may have one. */
static bool hides_pair(const char *keyword, size_t keyword_len, const char *value, size_t value_len)
{
	static const char options[] = "options";

	return memchr(value, '=', value_len) != NULL && !is_secret_keyword(keyword, keyword_len) &&
	       (keyword_len != sizeof(options) - 1 || memcmp(keyword, options, keyword_len) != 0);
}

static bool print_pairs(struct buf *out, const char *at)
{
	static const char spaces[] = " \t\r\n\f\v";
	size_t keyword_len, value_len;
	const char *keyword;

	for (at += strspn(at, spaces); *at != '\0'; at += strspn(at, spaces)) {
		keyword = at;
		keyword_len = strcspn(at, "= \t\r\n\f\v");
		at += keyword_len;
		at += strspn(at, spaces);
		if (*at++ != '=' || !is_keyword(keyword, keyword_len))
			return false;
		at += strspn(at, spaces);
		if (!value_length(at, &value_len) || hides_pair(keyword, keyword_len, at, value_len))
			return false;
		buf_print(out, "%s%.*s=", out->len > 0 ? " " : "", (int)keyword_len, keyword);
		add_value(out, keyword, keyword_len, at, value_len);
		at += value_len;
	}
	return true;
}

/* `?keyword=value&...`; an @ or = in a value is not encoded as it must be, so what it belongs to is not known. */
static bool print_query(struct buf *out, const char *at)
{
	size_t keyword_len, value_len;

	while (*at != '\0') {
		keyword_len = strcspn(at + 1, "=");
		if (at[1 + keyword_len] != '=' || !is_keyword(at + 1, keyword_len))
			return false;
		buf_add(out, at, keyword_len + 2);
		value_len = strcspn(at + keyword_len + 2, "&=@");
		add_value(out, at + 1, keyword_len, at + keyword_len + 2, value_len);
		at += keyword_len + 2 + value_len;
		if (*at != '\0' && *at != '&')
			return false;
	}
	return true;
}

/* One host, in brackets or not, with or without a port. */
static bool is_host(const char *at, size_t len)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_%";
	const char *end = at + len;
	bool bracket = len > 0 && *at == '[';

	at += bracket ? 1 : 0;
	while (at < end && (strchr(allowed, *at) != NULL || (bracket && *at == ':')))
		at++;
	if (bracket && (at == end || *at++ != ']'))
		return false;
	if (at < end && *at == ':')
		for (at++; at < end && *at >= '0' && *at <= '9';)
			at++;
	return at == end;
}

/* Hosts with commas between them. What is no host may be part of a password. */
static bool print_hosts(struct buf *out, const char *at, size_t len)
{
	size_t host_len;

	buf_add(out, at, len);
	for (const char *end = at + len; at <= end; at += host_len + 1) {
		host_len = strcspn(at, ",");
		if (host_len > (size_t)(end - at))
			host_len = (size_t)(end - at);
		if (!is_host(at, host_len))
			return false;
	}
	return true;
}

/* at is behind the scheme. */
static bool print_uri(struct buf *out, const char *at)
{
	size_t user_len, len = strcspn(at, "@/");

	if (at[len] == '@') { /* user[:password] */
		user_len = strcspn(at, ":@");
		buf_add(out, at, user_len);
		buf_add_string(out, at[user_len] == ':' ? ":" HIDDEN "@" : "@");
		at += len + 1;
	}
	len = strcspn(at, "/?");
	if (!print_hosts(out, at, len))
		return false;
	at += len;
	len = strcspn(at, "?@&=:"); /* but for the first, signs of other parts: something is misplaced */
	buf_add(out, at, len);
	return at[len] == '\0' || (at[len] == '?' && print_query(out, at + len));
}

void secret_print_dsn(struct buf *out, const char *dsn)
{
	static const char *const schemes[] = {"postgresql://", "postgres://"};
	struct buf shown = {0};
	bool good = false, uri = false;

	for (size_t i = 0; i < 2 && !uri; i++) {
		uri = strncmp(dsn, schemes[i], strlen(schemes[i])) == 0;
		if (!uri)
			continue;
		buf_add_string(&shown, schemes[i]);
		good = print_uri(&shown, dsn + strlen(schemes[i]));
	}
	if (!uri)
		good = print_pairs(&shown, dsn);
	buf_add_string(out, good ? buf_text(&shown) : HIDDEN);
	buf_free(&shown);
}
