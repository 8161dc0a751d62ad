// SPDX-License-Identifier: Apache-2.0

#include "scribe/span_exporter.h"

#include "base/text.h"
#include "config/config.h"
#include "metrics/receipt.h"
#include "net/certificates.h"
#include "net/dns_server.h"
#include "net/stub_server.h"
#include "net/tls.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <fcntl.h>
#include <math.h>

enum { batch = 512, two_batches = 2 * batch };

#define ANSWER(status) "HTTP/1.1 " status " X\r\ncontent-length: 2\r\n\r\n{}"

struct scene {
    struct stub_server server;
    struct loop *loop;
    struct config *config; // NULL: none
    char endpoint[128];
    struct span_exporter *exporter;
};

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){0};
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    stub_start(&scene->server, scene->loop);
    scene->server.routes[0] =
        (struct stub_route){.path = "/v1/traces", .answer = slice_str(ANSWER("200"))};
    snprintf(scene->endpoint, sizeof(scene->endpoint), "http://127.0.0.1:%u", scene->server.port);
}

static void begin(struct scene *scene)
{
    ASSERT(span_exporter_create(&(struct span_exporter_options){.loop = scene->loop,
                                                                .endpoint = scene->endpoint,
                                                                .service = "router",
                                                                .config = scene->config},
                                &scene->exporter) == STATUS_OK);
}

static void scene_close(struct scene *scene)
{
    span_exporter_destroy(&scene->exporter);
    stub_stop(&scene->server);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

static struct receipt receipt_of(uint64_t span)
{
    return (struct receipt){.wall_us = 1,
                            .end_us = 2,
                            .trace = {1, 2},
                            .span = span,
                            .is_sampled = true,
                            .outcome = RECEIPT_OK,
                            .status = 200,
                            .decision.chosen.cost = NAN};
}

static void note(struct scene *scene, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct receipt receipt = receipt_of(i + 1);
        span_exporter_note(scene->exporter, &receipt);
    }
}

// A turn as the scribe's: some time passes, what is due is sent.
static void turn(struct scene *scene)
{
    loop_turn(scene->loop, 1);
    span_exporter_flush(scene->exporter);
}

static void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        turn(scene);
    }
}

static void push(struct scene *scene, uint64_t time_ms)
{
    clock_push_ms(time_ms);
    turn_often(scene);
}

static bool becomes(struct scene *scene, uint64_t (*number)(const struct span_exporter *exporter),
                    uint64_t expected)
{
    for (int i = 0; i < 2000 && number(scene->exporter) != expected; i++) {
        turn(scene);
    }
    return number(scene->exporter) == expected;
}

static uint32_t spans_in(const char *text)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, "\"spanId\"")) != NULL; at++) {
        count++;
    }
    return count;
}

TEST(a_batch_leaves_when_it_is_a_second_old_and_not_before)
{
    struct scene scene;
    scene_open(&scene);
    begin(&scene);
    turn(&scene);
    note(&scene, 3);
    push(&scene, 200);
    CHECK_EQ(scene.server.accepted_count, 0);
    push(&scene, 800);
    CHECK(becomes(&scene, span_exporter_sent, 3));
    CHECK_EQ(scene.server.routes[0].count, 1);
    CHECK_EQ(spans_in(scene.server.request), 3);
    CHECK(slice_starts_with(slice_str(scene.server.request),
                            "POST /v1/traces HTTP/1.1\r\nhost: 127.0.0.1:"));
    CHECK(strstr(scene.server.request, "\r\ncontent-type: application/json\r\n") != NULL);
    CHECK(strstr(scene.server.request, "{\"stringValue\":\"router\"}") != NULL);
    push(&scene, 5000); // nothing is left to be sent
    CHECK_EQ(scene.server.routes[0].count, 1);
    scene_close(&scene);
}

TEST(a_full_batch_leaves_at_once)
{
    struct scene scene;
    scene_open(&scene);
    begin(&scene);
    note(&scene, batch);
    CHECK(becomes(&scene, span_exporter_sent, batch));
    CHECK_EQ(scene.server.routes[0].count, 1);
    CHECK_EQ(spans_in(scene.server.request), batch);
    // One more than fits sends the rest and begins another one.
    note(&scene, batch + 1);
    CHECK(becomes(&scene, span_exporter_sent, two_batches));
    push(&scene, 1000);
    CHECK(becomes(&scene, span_exporter_sent, two_batches + 1));
    CHECK_EQ(scene.server.routes[0].count, 3);
    CHECK_EQ(span_exporter_dropped(scene.exporter), 0);
    scene_close(&scene);
}

TEST(only_what_is_sampled_and_over_is_taken)
{
    struct scene scene;
    scene_open(&scene);
    begin(&scene);
    struct receipt receipt = receipt_of(1);
    receipt.is_sampled = false;
    span_exporter_note(scene.exporter, &receipt);
    receipt = receipt_of(1);
    receipt.outcome = RECEIPT_RUNNING;
    span_exporter_note(scene.exporter, &receipt);
    receipt = receipt_of(1);
    receipt.trace[0] = receipt.trace[1] = 0;
    span_exporter_note(scene.exporter, &receipt);
    push(&scene, 1000);
    CHECK_EQ(scene.server.accepted_count, 0);
    CHECK_EQ(span_exporter_dropped(scene.exporter), 0);
    scene_close(&scene);
}

TEST(a_path_of_the_endpoint_is_used_as_it_is)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.routes[0].path = "/otlp/x";
    snprintf(scene.endpoint, sizeof(scene.endpoint), "http://127.0.0.1:%u/otlp/x",
             scene.server.port);
    begin(&scene);
    note(&scene, batch);
    CHECK(becomes(&scene, span_exporter_sent, batch));
    char host[64];
    snprintf(host, sizeof(host), "\r\nhost: 127.0.0.1:%u\r\n", scene.server.port);
    CHECK(strstr(scene.server.request, host) != NULL);
    scene_close(&scene);
}

TEST(spans_are_dropped_and_counted_when_both_batches_are_full)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.routes[0].answer = (struct slice){0}; // silence
    begin(&scene);
    note(&scene, batch + batch + 77);
    CHECK_EQ(span_exporter_dropped(scene.exporter), 77);
    turn_often(&scene);
    CHECK_EQ(scene.server.routes[0].count, 1);
    // At the deadline the batch is given up, and not sent again: it may have arrived.
    scene.server.routes[0].answer = slice_str(ANSWER("200"));
    push(&scene, 10000);
    CHECK(becomes(&scene, span_exporter_dropped, 77 + batch));
    CHECK(becomes(&scene, span_exporter_sent, batch));
    CHECK_EQ(scene.server.routes[0].count, 2);
    CHECK_EQ(span_exporter_dropped(scene.exporter), 77 + batch);
    scene_close(&scene);
}

// How often one batch was sent to a collector that answers so, until it was given up.
static uint32_t posts_until_dropped(const char *answer)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.routes[0].answer = slice_str(answer);
    begin(&scene);
    note(&scene, batch);
    for (int i = 0; i < 20 && span_exporter_dropped(scene.exporter) == 0; i++) {
        push(&scene, 200);
    }
    ASSERT(span_exporter_dropped(scene.exporter) == batch &&
           span_exporter_sent(scene.exporter) == 0);
    push(&scene, 5000); // and not later either
    uint32_t count = scene.server.routes[0].count;
    scene_close(&scene);
    return count;
}

TEST(a_busy_collector_gets_a_batch_once_more_and_one_that_refuses_does_not)
{
    CHECK_EQ(posts_until_dropped(ANSWER("429")), 2);
    CHECK_EQ(posts_until_dropped(ANSWER("502")), 2);
    CHECK_EQ(posts_until_dropped(ANSWER("503")), 2);
    CHECK_EQ(posts_until_dropped(ANSWER("504")), 2);
    CHECK_EQ(posts_until_dropped(ANSWER("400")), 1);
    CHECK_EQ(posts_until_dropped(ANSWER("301")), 1);
    CHECK_EQ(posts_until_dropped(ANSWER("500")), 1);
    CHECK_EQ(posts_until_dropped("no HTTP at all\r\n\r\n"), 2);
}

TEST(a_second_try_that_succeeds_loses_nothing)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.slams = true;
    begin(&scene);
    note(&scene, batch);
    turn_often(&scene);
    CHECK_EQ(scene.server.accepted_count, 1);
    scene.server.slams = false;
    push(&scene, 1000);
    CHECK(becomes(&scene, span_exporter_sent, batch));
    CHECK_EQ(span_exporter_dropped(scene.exporter), 0);
    CHECK_EQ(scene.server.routes[0].count, 1);
    scene_close(&scene);
}

// Standard error goes to a file from the first call on; the second takes it back, and reads.
static int log_keep(int kept, char *text, size_t size)
{
    static char path[] = "/tmp/span_exporter_test.XXXXXX";
    static int file = -1;
    if (kept == -1) {
        kept = dup(STDERR_FILENO);
        file = mkstemp(path);
        ASSERT(kept != -1 && file != -1 && dup2(file, STDERR_FILENO) != -1);
        return kept;
    }
    ssize_t got = pread(file, text, size - 1, 0);
    ASSERT(got >= 0 && dup2(kept, STDERR_FILENO) != -1);
    text[got] = '\0';
    close(kept);
    close(file);
    unlink(path);
    return -1;
}

static uint32_t times(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static void drop_batches(struct scene *scene, uint32_t count)
{
    uint64_t before = span_exporter_dropped(scene->exporter);
    for (uint32_t i = 0; i < count; i++) {
        note(scene, batch);
        ASSERT(becomes(scene, span_exporter_dropped, before + (uint64_t)(i + 1) * batch));
    }
}

TEST(silence_and_return_are_logged_once_each)
{
    char text[4096];
    struct scene scene;
    scene_open(&scene);
    begin(&scene);
    int kept = log_keep(-1, NULL, 0);
    scene.server.routes[0].answer = slice_str(ANSWER("400"));
    drop_batches(&scene, 3);
    scene.server.routes[0].answer = slice_str(ANSWER("200"));
    note(&scene, batch);
    bool is_back = becomes(&scene, span_exporter_sent, batch);
    note(&scene, batch);
    is_back &= becomes(&scene, span_exporter_sent, two_batches);
    log_keep(kept, text, sizeof(text));
    CHECK(is_back);
    CHECK_EQ(times(text, "does not accept spans, which are dropped: it responds 400\n"), 1);
    CHECK_EQ(times(text, "accepts spans again\n"), 1);
    CHECK_EQ(times(text, "\n"), 2);
    scene_close(&scene);
}

TEST(a_missing_collector_costs_only_spans)
{
    struct scene scene;
    scene_open(&scene);
    snprintf(scene.endpoint, sizeof(scene.endpoint), "http://127.0.0.1:1");
    begin(&scene);
    note(&scene, batch);
    turn_often(&scene);
    push(&scene, 1000);
    CHECK(becomes(&scene, span_exporter_dropped, batch));
    CHECK_EQ(span_exporter_sent(scene.exporter), 0);
    scene_close(&scene);
}

TEST(over_tls_only_whom_it_trusts_gets_spans)
{
    static const char *const authorities[] = {"ca.pem", "other_ca.pem"};
    char error[tls_error_size];
    make_certificates();
    for (size_t i = 0; i < ARRAY_COUNT(authorities); i++) {
        struct scene scene;
        scene_open(&scene);
        struct tls_server_options identity = {.certificate = file_in_dir("leaf.pem"),
                                              .key = file_in_dir("key.pem")};
        CHECK_EQ(tls_server_create(&identity, &scene.server.tls, error), STATUS_OK);
        struct config config = {.backend_tls = {.ca = file_in_dir(authorities[i]), .verify = true}};
        snprintf(scene.endpoint, sizeof(scene.endpoint), "https://127.0.0.1:%u", scene.server.port);
        CHECK_EQ(span_exporter_create(&(struct span_exporter_options){.loop = scene.loop,
                                                                      .endpoint = scene.endpoint,
                                                                      .service = "router",
                                                                      .config = &config},
                                      &scene.exporter),
                 STATUS_OK);
        note(&scene, batch);
        turn_often(&scene);
        push(&scene, 1000);
        CHECK(becomes(&scene, i == 0 ? span_exporter_sent : span_exporter_dropped, batch));
        CHECK_EQ(scene.server.routes[0].count, i == 0 ? 1 : 0);
        tls_context_destroy(&scene.server.tls);
        scene_close(&scene);
    }
}

TEST(an_authority_that_cannot_be_read_is_refused)
{
    struct scene scene;
    scene_open(&scene);
    struct config config = {.backend_tls = {.ca = "/nowhere/ca.pem", .verify = true}};
    struct span_exporter_options options = {
        .loop = scene.loop, .endpoint = "https://a", .service = "router", .config = &config};
    CHECK_EQ(span_exporter_create(&options, &scene.exporter), STATUS_MALFORMED);
    options.endpoint = "a:4318";
    CHECK_EQ(span_exporter_create(&options, &scene.exporter), STATUS_MALFORMED);
    CHECK(scene.exporter == NULL);
    scene_close(&scene);
}

TEST(a_name_is_looked_up_and_its_addresses_are_tried_in_turn)
{
    static const struct dns_record records[] = {
        {"collector.example", "127.0.0.1", 3600, TYPE_A},
        {"collector.example", "127.0.0.9", 3600, TYPE_A},
    };
    struct scene scene;
    struct dns_server names;
    scene_open(&scene);
    dns_server_start(&names, scene.loop, records, ARRAY_COUNT(records));
    const char *servers[] = {names.address};
    struct config config = {.dns.servers = {.items = servers, .count = 1}};
    snprintf(scene.endpoint, sizeof(scene.endpoint), "http://collector.example:%u",
             scene.server.port);
    CHECK_EQ(span_exporter_create(&(struct span_exporter_options){.loop = scene.loop,
                                                                  .endpoint = scene.endpoint,
                                                                  .service = "router",
                                                                  .config = &config},
                                  &scene.exporter),
             STATUS_OK);
    note(&scene, batch);
    CHECK(becomes(&scene, span_exporter_sent, batch));
    CHECK(strstr(scene.server.request, "\r\nhost: collector.example:") != NULL);
    uint32_t questions = names.question_count;
    CHECK(questions > 0);
    // The first address fails: nobody is at the second, so the batch after the next arrives.
    scene.server.slams = true;
    note(&scene, batch);
    turn_often(&scene);
    scene.server.slams = false;
    push(&scene, 1000);
    CHECK(becomes(&scene, span_exporter_dropped, batch));
    note(&scene, batch);
    CHECK(becomes(&scene, span_exporter_sent, two_batches));
    CHECK_EQ(names.question_count, questions);
    span_exporter_destroy(&scene.exporter);
    dns_server_stop(&names);
    scene_close(&scene);
}

TEST(an_unknown_name_costs_a_batch_after_two_tries)
{
    struct scene scene;
    struct dns_server names;
    scene_open(&scene);
    dns_server_start(&names, scene.loop, NULL, 0);
    names.rcode = RCODE_NXDOMAIN;
    const char *servers[] = {names.address};
    struct config config = {.dns.servers = {.items = servers, .count = 1}};
    CHECK_EQ(span_exporter_create(
                 &(struct span_exporter_options){.loop = scene.loop,
                                                 .endpoint = "http://collector.example.",
                                                 .service = "router",
                                                 .config = &config},
                 &scene.exporter),
             STATUS_OK);
    note(&scene, batch);
    turn_often(&scene);
    CHECK_EQ(span_exporter_dropped(scene.exporter), 0);
    push(&scene, 1000);
    CHECK(becomes(&scene, span_exporter_dropped, batch));
    span_exporter_destroy(&scene.exporter);
    dns_server_stop(&names);
    scene_close(&scene);
}

TEST(the_end_sends_what_is_there)
{
    struct scene scene;
    scene_open(&scene);
    begin(&scene);
    note(&scene, batch + 5);
    span_exporter_finish(scene.exporter, 20000);
    CHECK_EQ(span_exporter_sent(scene.exporter), batch + 5);
    span_exporter_finish(scene.exporter, 20000); // nothing is there: at once
    CHECK_EQ(scene.server.routes[0].count, 2);
    scene_close(&scene);
}

TEST(the_end_does_not_wait_for_ever)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.routes[0].answer = (struct slice){0};
    begin(&scene);
    note(&scene, 5);
    span_exporter_finish(scene.exporter, 50);
    CHECK_EQ(span_exporter_sent(scene.exporter), 0);
    scene_close(&scene);
}

TEST(it_may_be_destroyed_at_any_moment)
{
    for (uint32_t turns = 0; turns < 12; turns++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.slams = turns % 2 == 0;
        begin(&scene);
        note(&scene, batch);
        for (uint32_t i = 0; i < turns; i++) {
            turn(&scene);
        }
        scene_close(&scene);
    }
}
