// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_scrape.h"

#include "net/stub_server.h"
#include "test.h"

struct scene {
    struct loop *loop;
    struct stub_server server;
    char url[64];
    const char *urls[2];
    struct audit_scrape *scrape;
    uint32_t done_count;
};

static void scene_open(struct scene *scene, const char *second_url)
{
    *scene = (struct scene){0};
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    stub_start(&scene->server, scene->loop);
    snprintf(scene->url, sizeof(scene->url), "http://127.0.0.1:%u", scene->server.port);
    scene->urls[0] = scene->url;
    scene->urls[1] = second_url;
    ASSERT(
        audit_scrape_create(&(struct audit_scrape_options){.loop = scene->loop,
                                                           .urls = scene->urls,
                                                           .url_count = second_url != NULL ? 2 : 1,
                                                           .path = "/metrics",
                                                           .api_key = "k",
                                                           .timeout_ms = 5000},
                            &scene->scrape) == STATUS_OK);
}

static void scene_close(struct scene *scene)
{
    audit_scrape_destroy(&scene->scrape);
    loop_turn(scene->loop, 0);
    stub_stop(&scene->server);
    loop_destroy(&scene->loop);
}

static void set_route(struct scene *scene, uint32_t index, const char *path, const char *answer)
{
    scene->server.routes[index] =
        (struct stub_route){.path = path, .answer = slice_str(answer), .end = STUB_CLOSES};
}

static void note(void *owner)
{
    struct scene *scene = owner;
    scene->done_count++;
}

static void run_round(struct scene *scene)
{
    uint32_t target = scene->done_count + 1;
    audit_scrape_start(scene->scrape, note, scene);
    for (int i = 0; scene->done_count != target && i < 4000; i++) {
        loop_turn(scene->loop, 5);
    }
    ASSERT(scene->done_count == target);
}

static double value_of(const struct scene *scene, enum counter counter)
{
    return audit_scrape_at(scene->scrape, 0)->history.last.counters.values[counter];
}

static const char *why_of(const struct scene *scene, uint32_t index)
{
    return audit_scrape_at(scene->scrape, index)->history.why;
}

TEST(each_round_reads_every_replica_once)
{
    struct scene scene;
    scene_open(&scene, "http://127.0.0.1:1");
    set_route(&scene, 0, "/metrics", "HTTP/1.1 200 OK\r\n\r\nvllm:prompt_tokens_total 5\n");
    run_round(&scene);
    CHECK_EQ(audit_scrape_count(scene.scrape), 2);
    CHECK_STR(audit_scrape_at(scene.scrape, 0)->name, scene.url);
    CHECK(value_of(&scene, COUNTER_PROMPT) == 5);
    CHECK(why_of(&scene, 0) == NULL);
    CHECK_STR(why_of(&scene, 1), "Connection refused");
    CHECK(strstr(scene.server.request, "authorization: Bearer k\r\n") != NULL);
    run_round(&scene);
    CHECK_EQ(scene.server.routes[0].count, 2);
    CHECK_EQ(audit_scrape_at(scene.scrape, 0)->history.page_count, 2);
    scene_close(&scene);
}

TEST(a_response_without_a_page_has_the_reason)
{
    struct scene scene;
    scene_open(&scene, NULL);
    set_route(&scene, 0, "/metrics", "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n");
    run_round(&scene);
    CHECK_STR(why_of(&scene, 0), "it responded with status 404");
    set_route(&scene, 0, "/metrics", "SSH-2.0\r\n");
    run_round(&scene);
    CHECK_STR(why_of(&scene, 0), "invalid HTTP response");
    scene_close(&scene);
}

TEST(steps_lead_to_the_text_and_complete_it)
{
    struct scene scene;
    scene_open(&scene, NULL);
    set_route(&scene, 0, "/metrics",
              "HTTP/1.1 200 OK\r\n\r\n[{\"kvCacheStats\":{\"reusedBlocks\":1,\"missedBlocks\":3,"
              "\"tokensPerBlock\":32}}]");
    set_route(&scene, 1, "/prometheus/metrics",
              "HTTP/1.1 200 OK\r\n\r\ntrtllm_prompt_tokens_total 100\n");
    run_round(&scene);
    CHECK(value_of(&scene, COUNTER_PROMPT) == 100 && value_of(&scene, COUNTER_CACHED) == 32);
    set_route(&scene, 1, "/prometheus/metrics", "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n");
    run_round(&scene);
    run_round(&scene);
    CHECK_EQ(scene.server.routes[1].count, 1); // and not again
    CHECK(value_of(&scene, COUNTER_CACHED) == 32);
    scene_close(&scene);
}

TEST(sglang_is_asked_how_long_its_prefills_take)
{
    struct scene scene;
    scene_open(&scene, NULL);
    set_route(&scene, 0, "/metrics", "HTTP/1.1 200 OK\r\n\r\nsglang:prompt_tokens_total 100\n");
    set_route(&scene, 1, "/v1/loads",
              "HTTP/1.1 200 OK\r\n\r\n{\"loads\":[{\"total_prefill_uncached_tokens\":60,"
              "\"total_prefill_busy_us\":3000000}]}");
    run_round(&scene);
    CHECK(value_of(&scene, COUNTER_PREFILL_SECONDS) == 3);
    CHECK(value_of(&scene, COUNTER_COMPUTED) == 60);
    scene_close(&scene);
}

TEST(a_round_may_be_left_in_the_middle)
{
    struct scene scene;
    scene_open(&scene, NULL);
    set_route(&scene, 0, "/metrics", ""); // silence
    audit_scrape_start(scene.scrape, note, &scene);
    for (int i = 0; scene.server.routes[0].count == 0 && i < 4000; i++) {
        loop_turn(scene.loop, 5);
    }
    CHECK_EQ(scene.server.routes[0].count, 1);
    scene_close(&scene);
    CHECK_EQ(scene.done_count, 0);
}
