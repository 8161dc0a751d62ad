// SPDX-License-Identifier: Apache-2.0
//
// redis_server.h -- a real redis-server for one test: started, asked, stopped, killed, restarted.
//
// It keeps nothing on disk but its log, in a directory that ends with it.  It dies with the test
// program.  Tests return at once, and say so, if the program is not installed.
#pragma once

#include "base/base.h"
#include "base/slice.h"
#include "net/tcp.h"
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { redis_word_count_max = 32, redis_reply_size = 1 << 16, redis_wait_s = 30 };

struct redis_server {
    pid_t pid; // 0: not running
    uint16_t port;
    bool is_sentinel;
    uint16_t tls_port;    // 0: plain only
    const char *password; // for the test's own commands; NULL: none
    char dir[64];
    const char *words[redis_word_count_max]; // of the command line, behind the fixed ones
    uint32_t word_count;
};

static inline bool redis_is_installed(void)
{
    if (access("/usr/bin/redis-server", X_OK) == 0) {
        return true;
    }
    printf("# skipped: redis-server is not installed\n");
    return false;
}

static inline uint16_t redis_free_port(void)
{
    struct address address;
    struct address local;
    int fd = -1;
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &fd) == STATUS_OK);
    ASSERT(tcp_local(fd, &local) == STATUS_OK);
    tcp_close(&fd);
    return ntohs(((const struct sockaddr_in *)(const void *)local.bytes)->sin_port);
}

static inline void redis_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

// A blocking connection; -1: refused.
static inline int redis_dial(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct timeval limit = {.tv_sec = redis_wait_s};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(fd != -1);
    ASSERT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == -1) {
        close(fd);
        return -1;
    }
    return fd;
}

// Sends a command in the form that people type, and returns the bytes of its reply.  Empty: nobody
// listens.  One buffer for all calls.
static inline const char *redis_ask(struct redis_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline const char *redis_ask(struct redis_server *server, const char *format, ...)
{
    static char reply[redis_reply_size];
    char command[4096];
    va_list args;
    size_t size = 0;
    size_t head = 0;

    reply[0] = '\0';
    int fd = redis_dial(server->port);
    if (fd == -1) {
        return reply;
    }
    if (server->password != NULL) {
        head = (size_t)snprintf(command, sizeof(command), "AUTH %s\r\n", server->password);
    }
    va_start(args, format);
    size = head + (size_t)vsnprintf(command + head, sizeof(command) - head, format, args);
    va_end(args);
    size += (size_t)snprintf(command + size, sizeof(command) - size, "\r\nQUIT\r\n");
    ASSERT(send(fd, command, size, MSG_NOSIGNAL) == (ssize_t)size);
    ASSERT(shutdown(fd, SHUT_WR) == 0); // a Sentinel does not know QUIT
    size = 0;
    ssize_t part = 0;
    while ((part = recv(fd, reply + size, sizeof(reply) - 1 - size, 0)) > 0) {
        size += (size_t)part;
    }
    reply[size] = '\0';
    close(fd);
    return server->password != NULL && strncmp(reply, "+OK\r\n", 5) == 0 ? reply + 5 : reply;
}

static inline void redis_wait_until_ready(struct redis_server *server)
{
    for (int i = 0; i < redis_wait_s * 200; i++) {
        const char *reply = redis_ask(server, "PING");
        if (strncmp(reply, "+PONG", 5) == 0) {
            return;
        }
        redis_pause();
    }
    ASSERT(false);
}

static inline void redis_exec(const struct redis_server *server)
{
    const char *words[redis_word_count_max + 16];
    char port[16];
    char tls_port[16];
    char conf[128];
    uint32_t count = 0;

    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(conf, sizeof(conf), "%s/conf", server->dir);
    words[count++] = "redis-server";
    if (server->is_sentinel) {
        words[count++] = conf;
        words[count++] = "--sentinel";
    } else {
        words[count++] = "--save";
        words[count++] = "";
        words[count++] = "--appendonly";
        words[count++] = "no";
        words[count++] = "--repl-diskless-sync-delay";
        words[count++] = "0";
    }
    words[count++] = "--port";
    words[count++] = port;
    if (server->tls_port != 0) {
        snprintf(tls_port, sizeof(tls_port), "%u", server->tls_port);
        words[count++] = "--tls-port";
        words[count++] = tls_port;
    }
    words[count++] = "--bind";
    words[count++] = "127.0.0.1";
    words[count++] = "--dir";
    words[count++] = server->dir;
    for (uint32_t i = 0; i < server->word_count; i++) {
        words[count++] = server->words[i];
    }
    char **copies = calloc(count + 1, sizeof(*copies)); // as execv wants them: not const
    for (uint32_t i = 0; i < count; i++) {
        copies[i] = strdup(words[i]);
    }
    execv("/usr/bin/redis-server", copies);
    _exit(127);
}

// Gives it a port and a directory; redis_start does so too.
static inline void redis_prepare(struct redis_server *server)
{
    if (server->port == 0) {
        server->port = redis_free_port();
        snprintf(server->dir, sizeof(server->dir), "/tmp/redis_test.XXXXXX");
        ASSERT(mkdtemp(server->dir) != NULL);
    }
}

// Starts it, again if it was killed, on the same port and empty.
static inline void redis_start(struct redis_server *server)
{
    redis_prepare(server);
    fflush(NULL);
    server->pid = fork();
    ASSERT(server->pid != -1);
    if (server->pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        ASSERT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        ASSERT(dup2(null, STDOUT_FILENO) != -1 && dup2(null, STDERR_FILENO) != -1);
        redis_exec(server);
    }
    redis_wait_until_ready(server);
}

static inline void redis_kill(struct redis_server *server)
{
    if (server->pid != 0) {
        ASSERT(kill(server->pid, SIGKILL) == 0);
        ASSERT(waitpid(server->pid, NULL, 0) == server->pid);
        server->pid = 0;
    }
}

static inline void redis_stop(struct redis_server *server)
{
    char path[160];
    redis_kill(server);
    snprintf(path, sizeof(path), "%s/conf", server->dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/dump.rdb", server->dir);
    unlink(path);
    rmdir(server->dir);
}
