#include "proxy.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct link {
	struct list_node node;
	struct proxy *proxy;
	ev_io client, server; /* server.fd < 0: a silent one */
};

static void fail(const char *what)
{
	perror(what);
	abort();
}

static void reset(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

static void unlink_both(struct link *link)
{
	ev_io_stop(link->proxy->loop, &link->client);
	ev_io_stop(link->proxy->loop, &link->server);
	reset(link->client.fd);
	if (link->server.fd >= 0)
		close(link->server.fd);
	list_remove(&link->proxy->links, &link->node);
	mem_free(link);
}

static void on_data(struct ev_loop *loop, ev_io *from, int revents)
{
	struct link *link = from->data;
	bool answer = from == &link->server;
	int to = answer ? link->client.fd : link->server.fd;
	char bytes[65536];
	ssize_t n = recv(from->fd, bytes, sizeof(bytes), 0);

	(void)loop;
	(void)revents;
	if (n > 0 && answer && link->proxy->swallow_answers)
		return;
	if (n > 0 && answer && link->proxy->drop_notifications && bytes[0] == 'A') /* NotificationResponse */
		return;
	if (n <= 0 || send(to, bytes, (size_t)n, MSG_NOSIGNAL) != n)
		unlink_both(link);
}

static int connect_inet(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	int fd;

	if (getaddrinfo(host, port, &hints, &found) != 0)
		fail("getaddrinfo");
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

static int connect_unix(const char *folder, const char *port)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.%s", folder, port);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void add_link(struct proxy *proxy, int client, int server)
{
	struct link *link = MEM_NEW(struct link);

	link->proxy = proxy;
	ev_io_init(&link->client, on_data, client, EV_READ);
	ev_io_init(&link->server, on_data, server, EV_READ);
	link->client.data = link->server.data = link;
	list_append(&proxy->links, &link->node);
	if (server < 0)
		return;
	ev_io_start(proxy->loop, &link->client);
	ev_io_start(proxy->loop, &link->server);
}

static void on_accept(struct ev_loop *loop, ev_io *watcher, int revents)
{
	struct proxy *proxy = watcher->data;
	int client = accept4(watcher->fd, NULL, NULL, SOCK_CLOEXEC), server = -1;

	(void)loop;
	(void)revents;
	if (client < 0)
		return;
	proxy->accepted++;
	if (!proxy->refuse && !proxy->silent)
		server = proxy->host[0] == '/' ? connect_unix(proxy->host, proxy->target_port)
					       : connect_inet(proxy->host, proxy->target_port);
	if (server < 0 && !proxy->silent)
		reset(client);
	else
		add_link(proxy, client, server);
}

void proxy_start(struct proxy *proxy, struct ev_loop *loop, const char *host, const char *target_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*proxy = (struct proxy){.loop = loop, .host = host, .target_port = target_port};
	list_init(&proxy->links);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 64) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		fail("proxy");
	proxy->port = ntohs(address.sin_port);
	ev_io_init(&proxy->accepting, on_accept, fd, EV_READ);
	proxy->accepting.data = proxy;
	ev_io_start(loop, &proxy->accepting);
}

void proxy_cut(struct proxy *proxy)
{
	struct list_node *node;

	while ((node = list_first(&proxy->links)) != NULL)
		unlink_both(LIST_OWNER(node, struct link, node));
}

void proxy_stop(struct proxy *proxy)
{
	proxy_cut(proxy);
	ev_io_stop(proxy->loop, &proxy->accepting);
	close(proxy->accepting.fd);
}
