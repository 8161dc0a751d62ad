// SPDX-License-Identifier: Apache-2.0

#include "admin/metrics_response.h"

#include "admin/keeper_scene.h"
#include "base/text.h"
#include "proxy/rig.h"
#include "test.h"
#include "worker/recorder.h"

#include <stdlib.h>
#include <string.h>

static char answer[1 << 20];

static void ask(const struct scene *scene)
{
    struct text out = text_over(answer, sizeof(answer) - 1);
    metrics_response(&scene->options, loop_now_ms(scene->loop), &out);
    ASSERT(!out.overflow);
    answer[out.size] = '\0';
}

// The value of the line with that name; "" when it is not on the page.
static const char *value_of(const char *name)
{
    static char value[64];
    char line[256];
    snprintf(line, sizeof(line), "\n%s ", name);
    const char *found = strstr(answer, line);
    if (found == NULL) {
        return "";
    }
    snprintf(value, sizeof(value), "%.*s", (int)strcspn(found + strlen(line), "\n"),
             found + strlen(line));
    return value;
}

TEST(an_answer_is_one_whole_page_as_prometheus_wants_it)
{
    struct scene scene;
    scene_open(&scene, "'http://10.0.0.1:8000'");
    ask(&scene);
    static const char head[] = "HTTP/1.1 200 OK\r\n"
                               "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
                               "content-length: ";
    CHECK(strncmp(answer, head, strlen(head)) == 0);
    const char *body = strstr(answer, "\r\nconnection: close\r\n\r\n");
    CHECK(body != NULL);
    body += strlen("\r\nconnection: close\r\n\r\n");
    CHECK_EQ(strtoul(answer + strlen(head), NULL, 10), strlen(body));
    CHECK(strncmp(body, "# HELP ", 7) == 0);
    CHECK_STR(value_of("warmpath_backend_up{backend=\"http://10.0.0.1:8000\"}"), "1");
    scene_close(&scene);
}

TEST(before_the_proxy_has_started_there_are_backends_and_the_process)
{
    struct scene scene;
    scene_open(&scene, "'http://10.0.0.1:8000'");
    scene.options.process_start_ms = 1763234567890;
    scene.options.recorded = &(struct recorder_totals){.recorded = 12, .dropped = 3};
    ask(&scene);
    CHECK_STR(value_of("warmpath_workers"), "0");
    CHECK_STR(value_of("warmpath_requests_in_flight"), "");
    CHECK_STR(value_of("warmpath_recorded_requests_total"), "12");
    CHECK_STR(value_of("process_start_time_seconds"), "1763234567.89");
    CHECK(strtoul(value_of("process_resident_memory_bytes"), NULL, 10) > 100000);
    scene_close(&scene);
}

TEST(a_proxy_that_runs_tells_of_its_workers)
{
    static struct rig rig;
    struct scene scene;
    scene_open(&scene, "'http://10.0.0.1:8000'");
    CHECK(rig_start(&rig, &(struct rig_options){.config = ""}));
    scene.options.proxy = &rig.proxy;
    ask(&scene);
    CHECK(strtoul(value_of("warmpath_workers"), NULL, 10) > 0);
    CHECK_STR(value_of("warmpath_requests_in_flight"), "0");
    CHECK_STR(value_of("warmpath_problems_total{code=\"no_backend\"}"), "0");
    CHECK_STR(value_of("warmpath_index_evictions_total"), "0");
    CHECK_STR(value_of("warmpath_routing_stage_seconds_count{stage=\"decide\"}"), "0");
    CHECK(rig_stop(&rig));
    scene_close(&scene);
}

TEST(a_page_that_does_not_fit_is_a_problem)
{
    struct scene scene;
    scene_open(&scene, "'http://10.0.0.1:8000'");
    struct text out = text_over(answer, 8000);
    metrics_response(&scene.options, loop_now_ms(scene.loop), &out);
    CHECK(!out.overflow);
    CHECK(strncmp(answer, "HTTP/1.1 500 ", 13) == 0);
    CHECK(metrics_response_size_max(&scene.options) > 8 << 20);
    scene_close(&scene);
}
