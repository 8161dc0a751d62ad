// SPDX-License-Identifier: Apache-2.0

#include "exchange/hop.h"

#include "config/config.h"
#include "exchange/request.h"
#include "proxy/rig.h"
#include "test.h"
#include "worker/upstream.h"

#include <stdlib.h>

// No retry and no budget: another connection to the same backend must cost neither.
#define NO_RETRIES "retry: {attempts: 1, budget_percent: 0, budget_min: 0}"
#define POST "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"

static struct rig rig;

static uint64_t faults(uint32_t index)
{
    return atomic_load(&rig.backends[index].backend->shared.failure_count);
}

TEST(in_place_of_a_dead_connection_comes_a_fresh_one_and_not_another_kept_one)
{
    struct rig_pair pairs[2];
    CHECK(rig_start(&rig, &(struct rig_options){.config = NO_RETRIES}));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(rig_ask(&rig, RIG_GET, &pairs[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(peer_send(pairs[i].backend, RIG_OK));
        CHECK(peer_expect(pairs[i].client, RIG_OK));
        CHECK(rig_turn(&rig));
    }
    CHECK(peer_send(pairs[0].client, RIG_GET));
    CHECK(peer_expect(pairs[1].backend, RIG_GET));
    peer_close(pairs[1].backend);
    struct peer *fresh = rig_accept(&rig, 0);
    CHECK(peer_expect(fresh, RIG_GET));
    CHECK(peer_is_silent(pairs[0].backend));
    CHECK(peer_send(fresh, RIG_OK));
    CHECK(peer_expect(pairs[0].client, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(a_backend_may_answer_before_it_has_read_the_body)
{
    enum { body_size = 24 << 20 };
    static const char answer[] =
        "HTTP/1.1 413 Too Much\r\nx-request-id: r\r\ncontent-length: 2\r\n\r\nno";
    char head[256];
    char seen[1024];
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "limits: {body_size: 32m, body_memory: 64m}"}));
    snprintf(head, sizeof(head), POST "content-length: %d\r\n\r\n", body_size);
    for (uint32_t i = 0; i < 3; i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, head));
        CHECK(peer_send_zeros(client, body_size));
        struct peer *backend = rig_accept(&rig, 0);
        CHECK(peer_read_head(backend, seen, sizeof(seen)));
        CHECK_STR(seen, head);
        CHECK(peer_send(backend, answer));
        if (i > 0) {
            peer_close(backend); // with a reset, since there is more to read
        }
        CHECK(peer_expect(client, answer));
        // Half a request is on that connection: it is not used again.
        CHECK(i > 0 || peer_drain(backend) < body_size);
        CHECK(peer_is_silent(client));
        CHECK(rig_becomes_idle(&rig));
        CHECK_EQ(faults(0), 0);
        peer_close(client);
        peer_close(backend);
    }
    CHECK(rig_stop(&rig));
}

// A worker without a thread: what hops need of one, and the test's own loop.
struct bench {
    struct worker worker;
    struct http_head response_head;
    struct list_node *idle[rig_backend_count_max];
    void *memory[3];
};

static bool bench_open(struct bench *bench)
{
    enum { count = 4, buffer_size = 8192 };
    struct worker *worker = &bench->worker;
    struct pool *pools[] = {&worker->upstreams, &worker->buffers, &worker->heads};
    size_t sizes[] = {sizeof(struct upstream), buffer_size, sizeof(struct http_head)};

    *bench = (struct bench){.worker = {.config = rig.config,
                                       .response_head = &bench->response_head,
                                       .idle = bench->idle,
                                       .head_size_max = 4096,
                                       .read_size = 4096,
                                       .buffer_size = buffer_size,
                                       .idle_count_max = count,
                                       .backend_count_max = rig_backend_count_max}};
    for (size_t i = 0; i < ARRAY_COUNT(pools); i++) {
        bench->memory[i] = aligned_alloc(64, (pool_memory_size(sizes[i], count) + 63) / 64 * 64);
        pool_init(pools[i], bench->memory[i], sizes[i], count);
    }
    return loop_create(&worker->loop) == STATUS_OK;
}

static bool bench_close(struct bench *bench)
{
    struct worker *worker = &bench->worker;
    upstream_purge(worker, true);
    loop_turn(worker->loop, 0);
    bool is_clean = pool_in_use(&worker->upstreams) == 0 && pool_in_use(&worker->buffers) == 0 &&
                    pool_in_use(&worker->heads) == 0;
    loop_destroy(&worker->loop);
    for (size_t i = 0; i < ARRAY_COUNT(bench->memory); i++) {
        free(bench->memory[i]);
    }
    return is_clean;
}

static void count_wake(void *owner)
{
    (*(uint32_t *)owner)++;
}

static bool begin_hop(struct bench *bench, struct hop *hop, const struct request *request,
                      uint32_t index, void *wakes)
{
    *hop = (struct hop){.worker = &bench->worker,
                        .wake = count_wake,
                        .owner = wakes,
                        .request = request,
                        .backend = rig.backends[index].backend};
    return backend_begin(hop->backend, 0, true, &hop->on_trial);
}

// Until the hop says `news`; on the way it writes the head that it is asked for.
static bool run_until(struct hop *hop, enum hop_news news)
{
    static const char head[] = "GET /hop HTTP/1.1\r\n\r\n";
    for (unsigned turn = 0; turn < 1000; turn++) {
        enum hop_news now = hop_run(hop);
        if (now == HOP_CONNECTED) {
            memcpy(hop->sending.bytes, head, sizeof(head) - 1);
            hop->sending.end = sizeof(head) - 1;
        }
        if (now == news || now == HOP_FAILED) {
            return now == news;
        }
        loop_turn(hop->worker->loop, 10);
    }
    return false;
}

TEST(two_hops_run_side_by_side_and_know_nothing_of_each_other)
{
    static struct bench bench;
    static struct request request;
    struct hop first;
    struct hop second;
    uint32_t wakes[2] = {0, 0};
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    CHECK(bench_open(&bench));
    CHECK(begin_hop(&bench, &first, &request, 0, &wakes[0]));
    CHECK(begin_hop(&bench, &second, &request, 1, &wakes[1]));
    CHECK(run_until(&first, HOP_SENT));
    CHECK(run_until(&second, HOP_SENT));
    struct peer *backends[2] = {rig_accept(&rig, 0), rig_accept(&rig, 1)};
    CHECK(peer_expect(backends[0], "GET /hop HTTP/1.1\r\n\r\n"));
    CHECK(peer_expect(backends[1], "GET /hop HTTP/1.1\r\n\r\n"));
    // The one breaks in the middle of its head; the other gets two heads.
    CHECK(peer_send(backends[0], "HTTP/1.1 200 OK\r\nconte"));
    CHECK(peer_send(backends[1], "HTTP/1.1 103 Early Hints\r\n\r\n" RIG_OK));
    CHECK(run_until(&second, HOP_HEAD));
    CHECK_EQ(second.head->status, 103);
    hop_skip_head(&second);
    CHECK(run_until(&second, HOP_HEAD));
    CHECK_EQ(second.head->status, 200);
    struct buffer rest = hop_take_response(&second);
    CHECK_EQ(rest.end - rest.begin, 2);
    peer_close(backends[0]);
    CHECK(!run_until(&first, HOP_HEAD));
    CHECK_EQ(first.failure, HOP_RESET);
    CHECK(first.got_bytes);
    hop_end(&first, false);
    CHECK(wakes[0] > 0 && wakes[1] > 0);
    buffer_put(&bench.worker, &rest);
    hop_end(&second, true);
    CHECK(peer_is_silent(backends[1])); // kept
    CHECK(bench_close(&bench));
    CHECK(rig_stop(&rig));
}

TEST(a_hop_to_a_port_where_no_process_listens_says_so)
{
    static struct bench bench;
    static struct request request;
    struct hop hop;
    uint32_t wakes = 0;
    CHECK(rig_start(&rig, &(struct rig_options){.refusing = 1}));
    CHECK(bench_open(&bench));
    CHECK(begin_hop(&bench, &hop, &request, 0, &wakes));
    CHECK(!run_until(&hop, HOP_SENT));
    CHECK_EQ(hop.failure, HOP_UNREACHABLE);
    CHECK(hop.is_refused);
    hop_end(&hop, false);
    hop_end(&hop, false); // idempotent
    CHECK(bench_close(&bench));
    CHECK(rig_stop(&rig));
}
