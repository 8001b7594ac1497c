/* names: where a program looks host names up, for tests.
 *
 *   LD_PRELOAD=names.so NAMES=FOLDER NAMES_PORT=PORT program
 *
 * What it opens in /etc is taken from FOLDER where that has a file of the name: resolv.conf, hosts; name servers are asked at
 * PORT, for resolv.conf cannot say that. And getaddrinfo() finds what stands in FOLDER/blocking, lines of an IPv4 address and
 * a name. Asked for another name, it waits for that to appear, and fails after as long as a resolver whose name servers are
 * silent: 20 s. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 200 /* a tenth of a second apart */

typedef FILE *open_fn(const char *, const char *);
typedef int connect_fn(int, const struct sockaddr *, socklen_t);
typedef int lookup_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static FILE *open_elsewhere(const char *function, const char *path, const char *mode)
{
	open_fn *open = (open_fn *)dlsym(RTLD_NEXT, function);
	const char *folder = getenv("NAMES");
	char other[4096];

	if (folder == NULL || strncmp(path, "/etc/", 5) != 0)
		return open(path, mode);
	snprintf(other, sizeof(other), "%s/%s", folder, path + 5);
	return open(access(other, R_OK) == 0 ? other : path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	return open_elsewhere("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	return open_elsewhere("fopen64", path, mode);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	connect_fn *connect_there = (connect_fn *)dlsym(RTLD_NEXT, "connect");
	struct sockaddr_in other;

	if (address->sa_family != AF_INET ||
	    ((const struct sockaddr_in *)(const void *)address)->sin_port != htons(53))
		return connect_there(fd, address, len);
	memcpy(&other, address, sizeof(other));
	other.sin_port = htons((uint16_t)strtol(getenv("NAMES_PORT"), NULL, 10));
	return connect_there(fd, (struct sockaddr *)&other, sizeof(other));
}

/* Writes the name's address, if it has one. */
static bool find(const char *name, char address[INET_ADDRSTRLEN])
{
	const char *folder = getenv("NAMES");
	char path[4096], each[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/blocking", folder == NULL ? "" : folder);
	file = fopen(path, "r");
	while (file != NULL && !found && fscanf(file, "%15s %255s", address, each) == 2)
		found = strcmp(each, name) == 0;
	if (file != NULL)
		fclose(file);
	return found;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	lookup_fn *lookup = (lookup_fn *)dlsym(RTLD_NEXT, "getaddrinfo");
	const struct timespec pause = {.tv_nsec = 100000000};
	struct addrinfo wanted = {0};
	char address[INET_ADDRSTRLEN];
	int failure;

	if (hints != NULL)
		wanted = *hints;
	wanted.ai_flags |= AI_NUMERICHOST;
	failure = lookup(name, service, &wanted, found);
	if (failure != EAI_NONAME || (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0))
		return failure;
	for (int i = 0; i < LOOKS; i++) {
		if (find(name, address))
			return lookup(address, service, &wanted, found);
		nanosleep(&pause, NULL);
	}
	return EAI_AGAIN;
}
