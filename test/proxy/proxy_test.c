// SPDX-License-Identifier: Apache-2.0

#include "config/config.h"
#include "rig.h"
#include "test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig rig;

enum { descriptor_count_max = 1024 };

static uint32_t open_descriptors(void)
{
    uint32_t count = 0;
    for (int fd = 0; fd < descriptor_count_max; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

static enum status start(const struct config *config, struct proxy **out, char *error)
{
    return proxy_start(
        &(struct proxy_options){
            .config = config, .fleet = rig.fleet, .reclaim = &rig.reclaim, .worker_count = 1},
        out, error);
}

static bool is_refused(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(fd != -1);
    bool refused = connect(fd, (void *)&address, sizeof(address)) == -1;
    close(fd);
    return refused;
}

// A configuration that listens where the rig does, and at another place.
static struct config *listen_on_two(const char *host, uint16_t port)
{
    char lines[128];
    struct config *config = NULL;
    struct config_error why;
    snprintf(lines, sizeof(lines),
             "listen: [\"127.0.0.1:%u\", \"%s:%u\"]\nbackends: [\"http://h:1\"]", rig.port, host,
             port);
    return config_parse(slice_str(lines), "two", NULL, &config, &why) == STATUS_OK ? config : NULL;
}

TEST(a_port_that_is_taken_is_named_and_nothing_starts)
{
    char error[proxy_error_size] = "";
    char wanted[proxy_error_size];
    struct proxy *proxy = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2, .refusing = 2}));
    uint32_t before = open_descriptors();
    // By another proxy, which would share it.
    snprintf(wanted, sizeof(wanted), "cannot listen on 127.0.0.1:%u: Address already in use",
             rig.port);
    CHECK_EQ(start(rig.config, &proxy, error), STATUS_IO);
    CHECK_STR(error, wanted);
    CHECK(proxy == NULL);
    // By something else, as the second of two addresses: the first one is let go.
    proxy_stop(&rig.proxy);
    struct config *config = listen_on_two("127.0.0.1", rig.backends[0].port);
    CHECK(config != NULL);
    snprintf(wanted, sizeof(wanted), "cannot listen on 127.0.0.1:%u: Address already in use",
             rig.backends[0].port);
    reclaim_init(&rig.reclaim, 1);
    uint32_t without = open_descriptors();
    CHECK(without < before);
    CHECK_EQ(start(config, &proxy, error), STATUS_IO);
    CHECK_STR(error, wanted);
    CHECK(proxy == NULL);
    CHECK_EQ(open_descriptors(), without);
    CHECK(is_refused(rig.port));
    config_destroy(&config);
    CHECK(rig_stop(&rig));
}

TEST(tls_is_not_switched_on_later_and_a_certificate_that_is_not_there_is_named_at_the_start)
{
    static const char lines[] = "tls: {certificate: /nonexistent/c.pem, key: /nonexistent/k.pem}";
    char error[proxy_error_size] = "";
    struct proxy *proxy = NULL;
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct config *config = rig_config(&rig, lines);
    CHECK(config != NULL);
    CHECK_EQ(proxy_replan(rig.proxy, config, error), STATUS_MALFORMED);
    CHECK(strstr(error, "without a restart") != NULL);
    CHECK(!proxy_reclaim(rig.proxy)); // the old plan stays, and nothing is to be freed
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    proxy_stop(&rig.proxy);
    reclaim_init(&rig.reclaim, 1);
    error[0] = '\0';
    CHECK_EQ(start(config, &proxy, error), STATUS_IO);
    CHECK(strstr(error, "/nonexistent/c.pem") != NULL);
    CHECK(proxy == NULL);
    config_destroy(&config);
    CHECK(rig_stop(&rig));
}

// A start that gets no descriptor from `limit` on.
static enum status start_within(int limit, const struct config *config, struct proxy **out,
                                char *error)
{
    struct rlimit before;
    ASSERT(getrlimit(RLIMIT_NOFILE, &before) == 0);
    struct rlimit tight = {.rlim_cur = (rlim_t)limit, .rlim_max = before.rlim_max};
    ASSERT(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    reclaim_init(&rig.reclaim, 1);
    error[0] = '\0';
    enum status status = start(config, out, error);
    ASSERT(setrlimit(RLIMIT_NOFILE, &before) == 0);
    return status;
}

TEST(a_start_that_fails_for_want_of_a_descriptor_leaks_none)
{
    char error[proxy_error_size];
    struct proxy *proxy = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    proxy_stop(&rig.proxy);
    struct config *config = listen_on_two("127.0.0.2", rig.port);
    CHECK(config != NULL);
    int free_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(free_fd != -1);
    close(free_fd);
    uint32_t count = open_descriptors();
    uint32_t failures = 0;
    // One descriptor more each time, until it has all it needs.
    while (start_within(free_fd + (int)failures, config, &proxy, error) != STATUS_OK) {
        CHECK(error[0] != '\0' && failures < 100);
        CHECK_EQ(open_descriptors(), count);
        failures++;
    }
    CHECK(failures >= 4); // two listeners, the loop's two
    proxy_stop(&proxy);
    CHECK_EQ(open_descriptors(), count);
    config_destroy(&config);
    CHECK(rig_stop(&rig));
}

TEST(a_plan_is_given_back_before_the_next_one_may_come)
{
    char error[proxy_error_size];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct config *second = rig_config(&rig, "");
    struct config *third = rig_config(&rig, "");
    CHECK(second != NULL && third != NULL);
    CHECK(!proxy_reclaim(rig.proxy));
    CHECK_EQ(proxy_replan(rig.proxy, second, error), STATUS_OK);
    CHECK_EQ(proxy_replan(rig.proxy, third, error), STATUS_AGAIN);
    CHECK(rig_turn(&rig));
    CHECK(proxy_reclaim(rig.proxy));
    CHECK(!proxy_reclaim(rig.proxy)); // once
    config_destroy(&rig.config);
    CHECK_EQ(proxy_replan(rig.proxy, third, error), STATUS_OK);
    CHECK(rig_turn(&rig));
    CHECK(proxy_reclaim(rig.proxy));
    config_destroy(&second);
    rig.config = third;
    struct rig_pair pair;
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(rig_stop(&rig));
}

TEST(draining_closes_what_rests_and_finishes_what_runs)
{
    struct rig_pair before;
    struct rig_pair running;
    struct rig_pair stream;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(rig_ask(&rig, RIG_GET, &before));
    CHECK(rig_ask(&rig, RIG_GET, &running));
    CHECK(rig_ask(&rig, RIG_GET, &stream));
    CHECK(peer_send(before.backend, RIG_OK));
    CHECK(peer_expect(before.client, RIG_OK));
    CHECK(peer_send(stream.backend, "HTTP/1.1 200 OK\r\nx-request-id: r\r\n"
                                    "transfer-encoding: chunked\r\n\r\n1\r\na\r\n"));
    CHECK(peer_expect(stream.client, "HTTP/1.1 200 OK\r\nx-request-id: r\r\n"
                                     "transfer-encoding: chunked\r\n\r\n1\r\na\r\n"));
    struct peer *half = rig_connect(&rig); // a request on its way in runs, too
    CHECK(peer_send(half, "GET /a HTTP/1.1\r\nhost: h\r\n"));
    struct peer *idle = rig_connect(&rig);
    CHECK(rig_has_connections(&rig, 5));
    CHECK(!proxy_is_drained(rig.proxy));
    proxy_drain(rig.proxy);
    CHECK(peer_expect_end(before.client));
    CHECK(peer_expect_end(before.backend)); // kept, and no longer
    CHECK(peer_expect_end(idle));
    CHECK(is_refused(rig.port));
    CHECK(!proxy_is_drained(rig.proxy));
    // An answer that has yet to begin says that it is the last one.
    CHECK(peer_send(running.backend, RIG_OK));
    CHECK(peer_expect(running.client, "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 2\r\n"
                                      "connection: close\r\n\r\nok"));
    CHECK(peer_expect_end(running.client));
    CHECK(peer_expect_end(running.backend));
    CHECK(peer_send(half, "x-request-id: r\r\n\r\n"));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(half, "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 2\r\n"
                            "connection: close\r\n\r\nok"));
    CHECK(peer_expect_end(half));
    CHECK(rig_turn(&rig));
    CHECK(!proxy_is_drained(rig.proxy));
    CHECK(peer_send(stream.backend, "0\r\n\r\n"));
    CHECK(peer_expect(stream.client, "0\r\n\r\n"));
    CHECK(peer_expect_end(stream.client));
    CHECK(rig_turn(&rig));
    CHECK(proxy_is_drained(rig.proxy));
    CHECK(rig_stop(&rig));
}

TEST(stopping_cuts_whatever_runs)
{
    struct rig_pair waiting;
    struct rig_pair stream;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(rig_ask(&rig, RIG_GET, &waiting));
    CHECK(rig_ask(&rig, RIG_GET, &stream));
    CHECK(peer_send(stream.backend, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"));
    char head[256];
    CHECK(peer_read_head(stream.client, head, sizeof(head)));
    struct peer *half = rig_connect(&rig);
    CHECK(peer_send(half, "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 900000\r\n\r\n123"));
    struct peer *lingering = rig_connect(&rig);
    CHECK(peer_send(lingering, "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 9000000\r\n\r\n"));
    CHECK(peer_expect_problem(lingering, 413, "body_too_large"));
    CHECK(rig_turn(&rig));
    proxy_stop(&rig.proxy);
    CHECK(rig.proxy == NULL);
    proxy_stop(&rig.proxy); // nothing happens
    CHECK(peer_expect_reset(waiting.client));
    CHECK(peer_expect_end(waiting.backend));
    CHECK(peer_expect_reset(stream.client));
    CHECK(peer_expect_end(stream.backend));
    CHECK(peer_expect_reset(half));
    CHECK(is_refused(rig.port));
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.in_flight), 0);
    CHECK(rig_stop(&rig));
}

TEST(totals_count_what_there_is)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    struct proxy_totals totals = rig_totals(&rig);
    CHECK_EQ(totals.request_count, 1);
    CHECK_EQ(totals.in_flight, 1);
    CHECK_EQ(totals.connection_count, 1);
    CHECK_EQ(totals.body_memory, 0);
    CHECK_EQ(totals.retry_count + totals.problem_count, 0);
    peer_reset(pair.backend);
    uint32_t index;
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, RIG_GET));
    peer_reset(backend);
    CHECK(peer_expect_problem(pair.client, 502, "bad_backend_answer"));
    CHECK(rig_becomes_idle(&rig));
    totals = rig_totals(&rig);
    CHECK_EQ(totals.request_count, 1);
    CHECK_EQ(totals.in_flight, 0);
    CHECK_EQ(totals.retry_count, 1);
    CHECK_EQ(totals.problem_count, 1);
    CHECK(rig_stop(&rig));
}
