// SPDX-License-Identifier: Apache-2.0
//
// After start our code does not call malloc: every request is served from pools.
//
// The program is linked so that our calls of the allocator come through here.  The test is one
// thread and the worker is the other, so calls from any other thread than the test's are the
// worker's.

#include "base/slice.h"
#include "dialect/tiny_dialect.h"
#include "proxy/rig.h"
#include "test.h"
#include "worker/recorder.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { warm_up_count = 100, exchange_count = 10000, backend_peer_count_max = 16 };

static pthread_t test_thread;
static atomic_uint_fast64_t worker_calls;

static void note_call(void)
{
    if (!pthread_equal(pthread_self(), test_thread)) {
        atomic_fetch_add_explicit(&worker_calls, 1, memory_order_relaxed);
    }
}

// The linker's names.
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *bytes);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *bytes);

void *__wrap_malloc(size_t size)
{
    note_call();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    note_call();
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    note_call();
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    note_call();
    return __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    note_call();
    return __real_strdup(text);
}

void __wrap_free(void *bytes)
{
    note_call();
    __real_free(bytes);
}

static struct rig rig;
static struct peer *backends[backend_peer_count_max];

static uint32_t free_place(void)
{
    uint32_t place = 0;
    while (place < backend_peer_count_max && backends[place] != NULL) {
        place++;
    }
    ASSERT(place < backend_peer_count_max);
    return place;
}

// The connection to a backend that has something to read; new ones are accepted as they come.
static struct peer *await_request(void)
{
    for (uint32_t tries = 0; tries < rig_patience_ms; tries++) {
        struct pollfd waits[backend_peer_count_max + rig_backend_count_max];
        nfds_t count = 0;
        for (uint32_t i = 0; i < backend_peer_count_max; i++) {
            int fd = backends[i] != NULL ? backends[i]->fd : -1;
            waits[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        for (uint32_t i = 0; i < rig.backend_count; i++) {
            waits[count++] = (struct pollfd){.fd = rig.backends[i].fd, .events = POLLIN};
        }
        poll(waits, count, 1);
        for (uint32_t i = 0; i < backend_peer_count_max; i++) {
            char byte;
            if (waits[i].revents == 0) {
                continue;
            }
            if (recv(waits[i].fd, &byte, 1, MSG_PEEK) == 1) {
                return backends[i];
            }
            peer_close(backends[i]); // the proxy was done with it
            backends[i] = NULL;
        }
        for (uint32_t i = 0; i < rig.backend_count; i++) {
            if ((waits[backend_peer_count_max + i].revents & POLLIN) != 0) {
                backends[free_place()] = rig_accept(&rig, i);
            }
        }
    }
    return NULL;
}

#define HEAD "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
#define ANSWER "HTTP/1.1 200 OK\r\nx-request-id: r\r\n"

#define SYSTEM                                                                                     \
    "{\"role\":\"system\",\"content\":\"You answer questions about the weather in harbours, "      \
    "briefly and without guessing. When the forecast is older than six hours you say so first. "   \
    "You never give advice to sailors, and everything that is not about the weather you refuse "   \
    "with one sentence. \"},{\"role\":\"user\",\"content\":\"Fog?\"}"
#define CHAT "content-length: 352\r\n\r\n{\"model\":\"m\",\"user\":\"u\",\"messages\":[" SYSTEM "]}"
#define STREAM                                                                                     \
    "content-length: 355\r\n\r\n{\"model\":\"m\",\"stream\":true,\"messages\":[" SYSTEM "]}"

struct kind {
    const char *request;
    const char *received; // by the backend
    const char *answer;
};

static const struct kind kinds[] = {
    {RIG_GET, RIG_GET, RIG_OK},
    {HEAD CHAT, HEAD CHAT,
     ANSWER "content-type: application/json\r\ncontent-length: 128\r\n\r\n"
            "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Yes.\"}}],\"usage\":{\"prompt_"
            "tokens\":90,\"prompt_tokens_details\":{\"cached_tokens\":64}}}"},
    {HEAD STREAM, HEAD STREAM,
     ANSWER "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            "82\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Fog\"}}]}\n\ndata: "
            "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\".\"}}]}\n\ndata: "
            "[DONE]\n\n\r\n0\r\n\r\n"},
    {HEAD "transfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
     HEAD "transfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n", RIG_OK},
};

static bool exchange(struct peer *client, const struct kind *kind)
{
    if (!peer_send(client, kind->request)) {
        return false;
    }
    struct peer *backend = await_request();
    return peer_expect(backend, kind->received) && peer_send(backend, kind->answer) &&
           peer_expect(client, kind->answer);
}

// Failures: a backend that is busy, one that breaks, one that closes a kept connection.
static bool mishap(struct peer *client, uint32_t which)
{
    if (!peer_send(client, RIG_GET)) {
        return false;
    }
    struct peer *backend = await_request();
    if (!peer_expect(backend, RIG_GET)) {
        return false;
    }
    if (which == 0) {
        if (!peer_send(backend,
                       "HTTP/1.1 429 Later\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n")) {
            return false;
        }
    } else {
        peer_reset(backend);
        for (uint32_t i = 0; i < backend_peer_count_max; i++) {
            backends[i] = backends[i] == backend ? NULL : backends[i];
        }
    }
    backend = await_request();
    return peer_expect(backend, RIG_GET) && peer_send(backend, RIG_OK) &&
           peer_expect(client, RIG_OK);
}

static const char plain_answer[] =
    ANSWER "content-type: application/json\r\ncontent-length: 54\r\n\r\n"
           "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Yes.\"}}]}";

enum { long_body_size = 300000 };
static char long_request[long_body_size + 200];

static bool serve_many(uint32_t count)
{
    const struct kind long_kind = {long_request, long_request, plain_answer};
    struct peer *client = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (i % 20 == 0) { // a new client now and then
            peer_close(client);
            client = rig_connect(&rig);
        }
        bool good = i % 50 == 7    ? mishap(client, i / 50 % 2)
                    : i % 50 == 13 ? exchange(client, &long_kind)
                                   : exchange(client, &kinds[i % ARRAY_COUNT(kinds)]);
        if (!good) {
            printf("# in exchange %u\n", i);
            return false;
        }
    }
    peer_close(client);
    return true;
}

TEST(ten_thousand_exchanges_allocate_nothing)
{
    test_thread = pthread_self();
    int head_size = snprintf(long_request, sizeof(long_request), HEAD "content-length: %d\r\n\r\n",
                             long_body_size);
    memset(long_request + head_size, 'x', long_body_size);
    struct recorder *recorder =
        recorder_create(&(struct recorder_options){.worker_count = 1, .span_tokens = 512});
    struct recorder_entry entry;
    const uint64_t *keys = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "policy: warm\nprefix: {block_size: 64}\n"
                                                          "retry: {backoff: 0, budget_min: 1000}\n"
                                                          "health: {eject_failures: 0}\n"
                                                          "timeouts: {backend_keepalive: 1h}",
                                                .backend_count = 2,
                                                .recorder = recorder}));
    CHECK(serve_many(warm_up_count));
    uint64_t before = atomic_load(&worker_calls);
    CHECK(serve_many(exchange_count));
    CHECK(rig_becomes_idle(&rig));
    CHECK_EQ(atomic_load(&worker_calls) - before, 0);
    CHECK_EQ(rig_totals(&rig).request_count, warm_up_count + exchange_count);
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(recorder_peek(recorder, 0, &entry, &keys)); // it was recorded, too
    // A new plan is not served from pools: the count does count.
    CHECK(rig_replan(&rig, "policy: random"));
    CHECK(atomic_load(&worker_calls) > before);
    CHECK(rig_stop(&rig));
    recorder_destroy(&recorder);
}

#define COMPLETION "POST /v1/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"

enum { text_kind_count = 5 };
static char exact_requests[text_kind_count][512];
static char exact_received[text_kind_count][512];

static void write_kind(uint32_t kind, const char *head, const char *body, const char *received)
{
    snprintf(exact_requests[kind], sizeof(exact_requests[0]), "%scontent-length: %zu\r\n\r\n%s",
             head, strlen(body), body);
    snprintf(exact_received[kind], sizeof(exact_received[0]), "%scontent-length: %zu\r\n\r\n%s",
             head, strlen(received), received);
}

// With a number that is new each time, so that no text is known as a whole.
static void write_kinds(uint32_t number)
{
    char body[256];
    uint32_t digits = '0' + number % 10;
    char ids[256];

    snprintf(body, sizeof(body),
             "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
             "{\"role\":\"user\",\"content\":\"Fog in %u?\"}]}",
             number);
    write_kind(0, HEAD, body, body);
    snprintf(body, sizeof(body),
             "{\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9 %u\"}],\"tools\":[{\"type\":"
             "\"function\",\"function\":{\"name\":\"f\"}}]}",
             number);
    write_kind(1, HEAD, body, body);
    snprintf(body, sizeof(body), "{\"prompt\":\"a%u\"}", number % 10);
    snprintf(ids, sizeof(ids), "{\"prompt\":[258,97,%u]}", digits);
    write_kind(2, COMPLETION, body, ids);
    // Requests without ids: a feature that no rules exist for, and a template that raises an
    // error.
    snprintf(body, sizeof(body), "{\"prompt\":\"a%u\",\"suffix\":\"b\"}", number);
    write_kind(3, COMPLETION, body, body);
    snprintf(body, sizeof(body), "{\"messages\":[{\"role\":\"user\",\"content\":[%u]}]}", number);
    write_kind(4, HEAD, body, body);
}

// The usage of an answer is compared with ours.
static const char usage_answer[] =
    ANSWER "content-type: application/json\r\ncontent-length: 126\r\n\r\n"
           "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Yes.\"}}],"
           "\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":0}}}";

static bool serve_exact(uint32_t count)
{
    struct peer *client = rig_connect(&rig);
    bool good = client != NULL;

    for (uint32_t i = 0; good && i < count; i++) {
        uint32_t which = i % text_kind_count;
        write_kinds(i);
        struct kind kind = {exact_requests[which], exact_received[which],
                            which == 2 ? usage_answer : plain_answer};
        const struct kind long_kind = {long_request, long_request, plain_answer};
        good = exchange(client, i % 100 == 99 ? &long_kind : &kind);
    }
    peer_close(client);
    return good;
}

// A chat whose text is encoded in portions.
static void write_long_chat(void)
{
    static const char before[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"";
    static const char after[] = "\"}]}";
    int head_size = snprintf(long_request, sizeof(long_request), HEAD "content-length: %d\r\n\r\n",
                             long_body_size);
    char *body = long_request + head_size;
    memset(body, 'x', long_body_size);
    for (uint32_t i = 100; i < long_body_size; i += 50) {
        body[i] = ' ';
    }
    memcpy(body, before, sizeof(before) - 1);
    memcpy(body + long_body_size - (sizeof(after) - 1), after, sizeof(after) - 1);
    body[long_body_size] = '\0';
}

TEST(ids_of_a_dialect_cost_no_allocation)
{
    enum { exact_exchange_count = 3000 };
    struct tiny_set tiny;
    test_thread = pthread_self();
    memset(backends, 0, sizeof(backends));
    write_long_chat();
    tiny_set_open(&tiny,
                  tiny_dialect((struct dialect_options){.is_trusted = true, .forwards_ids = true}));
    const struct dialect *dialect = tiny.set.dialects[0];
    // With a ledger, and one backend with events: blocks in flight are looked up, and responses
    // are audited.
    CHECK(rig_start(&rig, &(struct rig_options){.config = "policy: warm\n"
                                                          "events: {endpoint: poll, memory: 4m}\n"
                                                          "timeouts: {backend_keepalive: 1h}",
                                                .backend_count = 2,
                                                .dialects = &tiny.set}));
    struct backend *telling = fleet_at(rig.fleet, 0);
    atomic_store(&telling->shared.events, BACKEND_EVENTS_LIVE);
    CHECK(serve_exact(warm_up_count));
    uint64_t before = atomic_load(&worker_calls);
    CHECK(serve_exact(exact_exchange_count));
    CHECK(rig_becomes_idle(&rig));
    CHECK_EQ(atomic_load(&worker_calls) - before, 0);
    // Two kinds of five have no ids; every hundredth is the long one, which has.
    uint32_t served = warm_up_count + exact_exchange_count;
    uint64_t exact_count = atomic_load(&dialect->shared.by_ids_count);
    uint64_t inexact_count = atomic_load(&dialect->shared.by_text_count);
    CHECK_EQ(inexact_count, served / 5 * 2 - served / 100);
    CHECK_EQ(exact_count, served - inexact_count);
    CHECK_EQ(atomic_load(&dialect->shared.confirmed_count), served / 5);
    CHECK_EQ(atomic_load(&dialect->shared.drift_count), 0);
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    struct truth_view truth;
    truth_read(&telling->truth, TRUTH_BY_EVENTS, 0, &truth);
    CHECK(truth.all.count > 0);
    CHECK(rig_stop(&rig));
    tiny_set_close(&tiny);
}
