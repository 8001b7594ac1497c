/* Secrets: password files, and what is printed of connection strings and properties. */
#include "unit.h"

#include "config/secret.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static char directory[] = "/tmp/outboxd-secret-XXXXXX";
static char path[PATH_MAX];

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/pw", directory);
}

static void tear_down(void)
{
	unlink(path);
	rmdir(directory);
}

static void write_file(const char *bytes, size_t len)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
	ck_assert_int_eq(fclose(file), 0);
}

static const struct {
	const char *bytes;
	size_t len;
	const char *password; /* NULL: refused */
} files[] = {
	{"S3cr3t!", 7, "S3cr3t!"},
	{"S3cr3t!\n", 8, "S3cr3t!"},
	{"S3cr3t!\r\n", 9, "S3cr3t!"},
	{"two\nlines\n\n", 11, "two\nlines\n"},
	{" spaces \n", 9, " spaces "},
	{"", 0, NULL},
	{"\n", 1, NULL},
	{"a\0b", 3, NULL},
};

START_TEST(test_password_files)
{
	struct buf password = {0};
	struct err err = {""};

	write_file(files[_i].bytes, files[_i].len);
	ck_assert_int_eq(secret_read(path, &password, &err), files[_i].password != NULL);
	ck_assert_str_eq(buf_text(&password), files[_i].password != NULL ? files[_i].password : "");
	if (files[_i].password == NULL)
		ck_assert_ptr_nonnull(strstr(err.text, path));
	buf_free(&password);
}
END_TEST

START_TEST(test_credentials_directory)
{
	struct buf password = {0};
	struct err err;

	write_file("x\n", 2);
	unsetenv("CREDENTIALS_DIRECTORY");
	ck_assert(!secret_read("pw", &password, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "$CREDENTIALS_DIRECTORY"));
	setenv("CREDENTIALS_DIRECTORY", directory, 1);
	ck_assert(secret_read("pw", &password, &err));
	ck_assert_str_eq(buf_text(&password), "x");
	ck_assert(!secret_read("none", &password, &err));
	buf_free(&password);
}
END_TEST

START_TEST(test_large_file_is_refused)
{
	struct buf large = {0}, password = {0};
	struct err err;

	while (large.len < 65536)
		buf_add_char(&large, 'x');
	write_file(large.bytes, large.len);
	ck_assert(secret_read(path, &password, &err));
	buf_add_char(&large, 'x');
	write_file(large.bytes, large.len);
	ck_assert(!secret_read(path, &password, &err));
	ck_assert_ptr_null(strstr(err.text, "xxxxxxxx")); /* a temporary file's name may hold a few */
	buf_free(&large);
	buf_free(&password);
}
END_TEST

static const struct {
	const char *dsn, *shown;
} dsns[] = {
	{"", ""},
	{"host=h dbname=d", "host=h dbname=d"},
	{"host=h password=S3cr3t! dbname=d", "host=h password=*** dbname=d"},
	{"  host = h   password = 'S3cr3t! \\' x' ", "host=h password=***"},
	{"password=S3cr3t\\ more user=u", "password=*** user=u"},
	{"host='a b' sslpassword=S3cr3t", "host='a b' sslpassword=***"},
	{"password=", "password=***"},
	{"password=a=b options='-c a=b'", "password=*** options='-c a=b'"},
	{"postgresql://u:S3cr3t%21@h:5432,i/d?sslmode=require", "postgresql://u:***@h:5432,i/d?sslmode=require"},
	{"postgres://u@h/d", "postgres://u@h/d"},
	{"postgres://h/d?user=u&password=S3cr3t%21&port=1", "postgres://h/d?user=u&password=***&port=1"},
	{"postgresql://u:S3cr3t@[::1]:5432/d", "postgresql://u:***@[::1]:5432/d"},
	{"postgresql://%2Frun%2Fpostgresql/d", "postgresql://%2Frun%2Fpostgresql/d"},
	{"postgresql://u:S3%zzcr3t@h", "postgresql://u:***@h"},
	{"postgresql:///d?host=/run/postgresql", "postgresql:///d?host=/run/postgresql"},
	/* What cannot be taken apart is not shown at all. */
	{"postgresql://u:S3cr3t@[::1/d", "***"},
	{"postgresql://u:S3cr@3t@h/d", "***"},
	{"postgresql://u:S3/cr3t@h/d", "***"},
	{"postgresql://u:x@h/d:sslmode=require&password=S3cr3t", "***"},
	{"postgresql://u:x@h/d?password=S3&cr3t", "***"},
	{"postgresql://u:x@h/d?password=S3=cr3t", "***"},
	{"postgresql://u:x@h/d?password=S3@cr3t", "***"},
	{"u:S3%zzcr3t@h", "***"},
	{"password=S3 cr3t", "***"},
	{"password=S3 cr=3t", "***"},
	{"password='S3cr3t", "***"},
	{"pasword=S3cr3t", "***"},
	{"host=h user='u password=S3cr3t' dbname=d", "***"},
	{"user=u=password=S3cr3t", "***"},
	{"host=h password 'S3cr3t'", "***"},
	{"mysql://u:S3cr3t@h", "***"},
};

START_TEST(test_F088_connection_strings)
{
	struct buf shown = {0};

	secret_print_dsn(&shown, dsns[_i].dsn);
	ck_assert_str_eq(buf_text(&shown), dsns[_i].shown);
	buf_free(&shown);
}
END_TEST

/* However a string is spoilt around the passwords in it, they do not show. The byte before a password stays: with another
 * one it would be part of something else, such as the user's name. */
static void spoil(char *text)
{
	static const char spoilers[] = " '\"\\@:/?&=%[]{}$\n\t,a";
	size_t at = (size_t)random() % strlen(text);

	if (strchr("S3crt", text[at]) == NULL && strncmp(text + at + 1, "S3cr3t", 6) != 0)
		text[at] = spoilers[(size_t)random() % (sizeof(spoilers) - 1)];
}

START_TEST(test_F088_spoilt_connection_strings)
{
	static const char *const whole[] = {
		"postgresql://user:S3cr3t!@host:1,[::1]:2/db?sslmode=require&password=S3cr3t!",
		"host=h user='u' password=S3cr3t! sslpassword=S3cr3t!"};
	char text[128];
	struct buf shown = {0};

	srandom(11);
	for (int i = 0; i < 200000; i++) {
		snprintf(text, sizeof(text), "%s", whole[i % 2]);
		for (int changes = 0; changes < 3; changes++)
			spoil(text);
		buf_clear(&shown);
		secret_print_dsn(&shown, text);
		ck_assert_msg(strstr(buf_text(&shown), "S3cr3t") == NULL, "%s gave %s", text, buf_text(&shown));
	}
	buf_free(&shown);
}
END_TEST

START_TEST(test_F088_properties)
{
	static const char *const secret[] = {"sasl.password",
					     "ssl.key.password",
					     "ssl.keystore.password",
					     "ssl.key.pem",
					     "sasl.oauthbearer.client.secret",
					     "sasl.oauthbearer.config",
					     "ssl_key"};
	static const char *const open[] = {"compression.type", "sasl.username",	   "ssl.ca.location",
					   "linger.ms",	       "ssl.key.location", "acks"};

	for (int i = 0; i < COUNT(secret); i++)
		ck_assert_msg(secret_is_property(secret[i]), "%s", secret[i]);
	for (int i = 0; i < COUNT(open); i++)
		ck_assert_msg(!secret_is_property(open[i]), "%s", open[i]);
}
END_TEST

Suite *suite(void)
{
	Suite *suite = suite_create("secret");
	TCase *tcase = tcase_create("secret");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_loop_test(tcase, test_password_files, 0, COUNT(files));
	tcase_add_test(tcase, test_credentials_directory);
	tcase_add_test(tcase, test_large_file_is_refused);
	tcase_add_loop_test(tcase, test_F088_connection_strings, 0, COUNT(dsns));
	tcase_add_test(tcase, test_F088_spoilt_connection_strings);
	tcase_add_test(tcase, test_F088_properties);
	suite_add_tcase(suite, tcase);
	return suite;
}
