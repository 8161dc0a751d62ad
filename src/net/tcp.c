// SPDX-License-Identifier: Apache-2.0

#include "net/tcp.h"

#include "base/base.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(struct sockaddr_in6) <= sizeof(((struct address *)0)->bytes), "fits");
// A slice is laid out as an iovec, so an array of them goes to the kernel as it is.
_Static_assert(sizeof(struct slice) == sizeof(struct iovec), "same layout");
_Static_assert(offsetof(struct slice, size) == offsetof(struct iovec, iov_len), "same layout");

enum { listen_backlog = 4096, slice_count_max = 8 };

static const struct sockaddr *as_sockaddr(const struct address *address)
{
    return (const void *)address->bytes;
}

enum status address_from_literal(const char *host, uint16_t port, struct address *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    *out = (struct address){0};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(out->bytes, &v4, sizeof(v4));
        out->size = sizeof(v4);
        return STATUS_OK;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(out->bytes, &v6, sizeof(v6));
        out->size = sizeof(v6);
        return STATUS_OK;
    }
    return STATUS_MALFORMED;
}

enum status address_parse(const char *text, struct address *out)
{
    char host[INET6_ADDRSTRLEN + 1];
    const char *colon = strrchr(text, ':');
    uint64_t port;

    if (colon == NULL || !slice_parse_u64(slice_str(colon + 1), &port) || port > UINT16_MAX) {
        return STATUS_MALFORMED;
    }
    struct slice name = slice_of(text, (size_t)(colon - text));
    bool is_v6 = name.size >= 2 && name.bytes[0] == '[' && name.bytes[name.size - 1] == ']';
    if (is_v6) {
        name = slice_of(name.bytes + 1, name.size - 2);
    }
    if (name.size == 0 || slice_is(name, "*")) {
        name = slice_str("0.0.0.0");
    }
    if (name.size >= sizeof(host)) {
        return STATUS_MALFORMED;
    }
    memcpy(host, name.bytes, name.size);
    host[name.size] = '\0';
    if (is_v6 != (strchr(host, ':') != NULL)) {
        return STATUS_MALFORMED;
    }
    return address_from_literal(host, (uint16_t)port, out);
}

void address_format_host(const struct address *address, struct text *out)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (address->size == sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *v4 = (const void *)address->bytes;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
    } else if (address->size == sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *v6 = (const void *)address->bytes;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
    }
    text_add_str(out, host);
}

void address_format(const struct address *address, struct text *out)
{
    bool is_v6 = address->size == sizeof(struct sockaddr_in6);
    // The port sits at the same place in both families.
    const struct sockaddr_in *any = (const void *)address->bytes;

    text_add_str(out, is_v6 ? "[" : "");
    address_format_host(address, out);
    text_add_str(out, is_v6 ? "]:" : ":");
    text_add_u64(out, ntohs(any->sin_port));
}

// Tokens are small and must not wait for more; a peer that vanished without a word is noticed
// within two minutes.  Connections inherit all this from their listener.  Best effort: sockets that
// know no such options work too.
static void tcp_tune(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
    };
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof(options[i].value));
    }
}

static enum status tcp_bind(const struct address *address, int share, int *out)
{
    enum status status = STATUS_IO;
    int on = 1;
    int fd = socket(as_sockaddr(address)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        goto out;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &share, sizeof(share)) == -1) {
        goto out;
    }
    if (bind(fd, as_sockaddr(address), address->size) == -1) {
        goto out;
    }
    *out = fd;
    fd = -1; // now the caller's
    status = STATUS_OK;

out:
    tcp_close(&fd);
    return status;
}

enum status tcp_listen(const struct address *address, int *out)
{
    int fd = -1;
    if (tcp_bind(address, 1, &fd) != STATUS_OK) {
        return STATUS_IO;
    }
    tcp_tune(fd);
    if (listen(fd, listen_backlog) == -1) {
        tcp_close(&fd);
        return STATUS_IO;
    }
    *out = fd;
    return STATUS_OK;
}

enum status tcp_probe_bind(const struct address *address)
{
    int fd = -1;
    // Without listening: a client that comes meanwhile is refused, not accepted and cut.
    enum status status = tcp_bind(address, 0, &fd);
    tcp_close(&fd);
    return status;
}

// Whether it is we who lack something, and not the peer.
static bool is_our_lack(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
           error == EADDRNOTAVAIL;
}

enum status tcp_accept(int listener, int *out, struct address *peer)
{
    socklen_t size = sizeof(peer->bytes);
    *peer = (struct address){0};

    for (;;) {
        int fd = accept4(listener, (void *)peer->bytes, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd != -1) {
            peer->size = size;
            *out = fd;
            return STATUS_OK;
        }
        if (is_our_lack(errno)) {
            return STATUS_EXHAUSTED;
        }
        switch (errno) {
        case EAGAIN:
            return STATUS_AGAIN;
        case EINTR:
        case ECONNABORTED:
        case EPROTO:
        case ENETDOWN:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
            break; // that connection died in the queue: take the next
        default:
            return STATUS_IO;
        }
    }
}

enum status tcp_connect(const struct address *address, int *out)
{
    enum status status = STATUS_IO;
    int fd = socket(as_sockaddr(address)->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return is_our_lack(errno) ? STATUS_EXHAUSTED : STATUS_IO;
    }
    tcp_tune(fd);
    if (connect(fd, as_sockaddr(address), address->size) == -1 && errno != EINPROGRESS) {
        status = is_our_lack(errno) ? STATUS_EXHAUSTED : STATUS_IO;
        goto out;
    }
    *out = fd;
    fd = -1; // now the caller's
    status = STATUS_OK;

out:
    tcp_close(&fd);
    return status;
}

int tcp_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == -1) {
        return errno;
    }
    return error;
}

enum status tcp_local(int fd, struct address *out)
{
    struct address address = {0};
    socklen_t size = sizeof(address.bytes);
    if (getsockname(fd, (void *)address.bytes, &size) == -1) {
        return STATUS_IO;
    }
    address.size = size;
    *out = address;
    return STATUS_OK;
}

enum status tcp_read(int fd, void *bytes, size_t capacity, size_t *size)
{
    for (;;) {
        ssize_t moved = recv(fd, bytes, capacity, 0);
        if (moved > 0) {
            *size = (size_t)moved;
            return STATUS_OK;
        }
        if (moved == 0) {
            return STATUS_CLOSED;
        }
        if (errno != EINTR) {
            return errno == EAGAIN ? STATUS_AGAIN : STATUS_IO;
        }
    }
}

enum status tcp_write(int fd, const struct slice *slices, uint32_t slice_count, size_t *size)
{
    ASSERT(slice_count <= slice_count_max);

    struct iovec parts[slice_count_max];
    memcpy(parts, slices, slice_count * sizeof(struct slice));
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = slice_count};
    for (;;) {
        ssize_t moved = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (moved >= 0) {
            *size = (size_t)moved;
            return STATUS_OK;
        }
        if (errno != EINTR) {
            return errno == EAGAIN ? STATUS_AGAIN : STATUS_IO;
        }
    }
}

void tcp_abort_on_close(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void tcp_close(int *fd)
{
    if (*fd != -1) {
        int saved_errno = errno;
        close(*fd);
        errno = saved_errno;
        *fd = -1;
    }
}

uint64_t tcp_limit_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1) {
        return 0;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur;
}
