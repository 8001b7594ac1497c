/* secret: passwords from files, and keeping them out of everything that is printed. */
#ifndef OUTBOXD_CONFIG_SECRET_H
#define OUTBOXD_CONFIG_SECRET_H

#include "base/buf.h"
#include "base/err.h"

/* Reads a password file: a name without a slash is looked up in $CREDENTIALS_DIRECTORY. One trailing line
 * end is cut. At most 64 KiB. The error names the file, never its content. */
bool secret_read(const char *file, struct buf *password, struct err *err) must_check;

/* True for librdkafka property names whose value must not be printed (passwords, keys, tokens). */
bool secret_is_property(const char *name);

/* Appends a libpq connection string (key=value or URI) with its password replaced by ***. A string that cannot be
 * parsed becomes "***" whole, for its password cannot be found. */
void secret_print_dsn(struct buf *out, const char *dsn);

#endif
