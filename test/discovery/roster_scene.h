// SPDX-License-Identifier: Apache-2.0
//
// roster_scene.h -- a roster with a name server in its loop, a fleet that no backend is asked about
// (probes and scrapes are off unless a test turns them on), and a clock that is pushed from one
// question to the next.
#pragma once

#include "base/reclaim.h"
#include "base/text.h"
#include "config/config.h"
#include "discovery/roster.h"
#include "feed/kv_poller.h"
#include "feed/prober.h"
#include "feed/scraper.h"
#include "fleet/fleet.h"
#include "net/dns_server.h"
#include "net/stub_server.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <signal.h>

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct dns_server server;
    struct fleet *fleet;
    struct prober *prober;
    struct scraper *scraper;
    struct kv_poller *poller; // NULL: events are not polled
    struct config *config;
    struct roster *roster;
    uint32_t changed_count;
};

static inline void changed(void *owner)
{
    struct scene *scene = owner;
    scene->changed_count++;
}

static inline struct config *read_config(const struct scene *scene, const char *yaml)
{
    char text[2048];
    struct config *config = NULL;
    struct config_error error;
    snprintf(text, sizeof(text),
             "limits: {backends: 8}\nhealth: {interval: 0}\n%s%s"
             "admin: {listen: '127.0.0.1:1', token: t}\n" // so that there may be no backends
             "dns: {servers: ['%s'], ttl_min: 10s, ttl_max: 60s}\n%s",
             strstr(yaml, "learn:") == NULL ? "models: {learn: false}\n" : "",
             strstr(yaml, "load:") == NULL ? "load: {scrape: false}\n" : "", scene->server.address,
             yaml);
    enum status status = config_parse(slice_str(text), "test", NULL, &config, &error);
    if (status != STATUS_OK) {
        printf("# %u:%u: %s\n", error.line, error.column, error.text);
    }
    ASSERT(status == STATUS_OK);
    return config;
}

static inline void scene_open(struct scene *scene, const char *yaml)
{
    *scene = (struct scene){0};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    dns_server_start(&scene->server, scene->loop, NULL, 0);
    reclaim_init(&scene->reclaim, 0);
    scene->config = read_config(scene, yaml);
    scene->fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = 8, .pool_count = fleet_pool_count_max},
        &scene->reclaim);
    scene->prober = prober_create(&(struct prober_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    scene->scraper =
        scraper_create(&(struct scraper_options){.loop = scene->loop, .config = scene->config});
    ASSERT(scene->fleet != NULL && scene->prober != NULL && scene->scraper != NULL);
}

static inline void scene_start(struct scene *scene)
{
    scene->roster = roster_create(&(struct roster_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .prober = scene->prober,
                                                           .scraper = scene->scraper,
                                                           .poller = scene->poller,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    ASSERT(scene->roster != NULL);
}

static inline void scene_close(struct scene *scene)
{
    roster_destroy(&scene->roster);
    ASSERT(scene->roster == NULL);
    roster_destroy(&scene->roster); // nothing happens
    prober_destroy(&scene->prober);
    scraper_destroy(&scene->scraper);
    kv_poller_destroy(&scene->poller);
    dns_server_stop(&scene->server);
    fleet_destroy(&scene->fleet);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

static inline void set_config(struct scene *scene, const char *yaml)
{
    struct config *config = read_config(scene, yaml);
    prober_set_config(scene->prober, config);
    scraper_set_config(scene->scraper, config);
    roster_set_config(scene->roster, config);
    config_destroy(&scene->config); // nothing of the old one is needed
    scene->config = config;
}

static inline void set_records(struct scene *scene, const struct dns_record *records,
                               uint32_t count)
{
    scene->server.records = records;
    scene->server.record_count = count;
}

// As the keeper does now and then: shows the fleet to the workers and frees old views.
static inline void publish(struct scene *scene)
{
    ASSERT(fleet_publish(scene->fleet));
    fleet_reclaim(scene->fleet);
}

// The urls of the fleet in its order, without "http://".
static const char *fleet_text(const struct scene *scene)
{
    static char space[2048];
    struct text text = text_over(space, sizeof(space) - 1);
    const struct backend *backend;
    for (uint32_t i = 0; (backend = fleet_at(scene->fleet, i)) != NULL; i++) {
        text_add_str(&text, i > 0 ? " " : "");
        text_add_str(&text,
                     strncmp(backend->url, "http://", 7) == 0 ? backend->url + 7 : backend->url);
    }
    space[text.size] = '\0';
    return space;
}

// NULL when there is none.
static inline struct backend *find_url(const struct scene *scene, const char *url)
{
    struct backend *backend;
    uint32_t i = 0;
    while ((backend = fleet_at(scene->fleet, i)) != NULL && strcmp(backend->url, url) != 0) {
        i++;
    }
    return backend;
}

// The id of a backend by its url, 0 when there is none.
static inline uint64_t id_of(const struct scene *scene, const char *url)
{
    const struct backend *backend = find_url(scene, url);
    return backend == NULL ? 0 : backend->id;
}

static inline bool fleet_is(const struct scene *scene, const char *expected)
{
    return strcmp(fleet_text(scene), expected) == 0;
}

// Gives up after a while that is long whatever the clock was pushed by.
#define TURN_UNTIL(scene, condition)                                                               \
    do {                                                                                           \
        for (int turns = 0; !(condition) && turns < 4000; turns++) {                               \
            loop_turn((scene)->loop, 5);                                                           \
        }                                                                                          \
        CHECK(condition);                                                                          \
    } while (0)

static inline void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        loop_turn(scene->loop, 1);
    }
}

static const struct dns_record one_and_two[] = {
    {"engines.test", "10.0.0.1", 20, TYPE_A},
    {"engines.test", "10.0.0.2", 20, TYPE_A},
};

static const struct dns_record two_and_three[] = {
    {"engines.test", "10.0.0.2", 20, TYPE_A},
    {"engines.test", "10.0.0.3", 20, TYPE_A},
    {"engines.test", "2001:db8::4", 20, TYPE_AAAA},
};

static const char engines[] = "backends: ['http://engines.test:8000']";
static const char engines_one_and_two[] = "engines.test:8000#10.0.0.1 engines.test:8000#10.0.0.2";

// As config_load would make it, from what the admin API got.
static inline struct config_backend spec_of(const char *url, const char *host)
{
    return (struct config_backend){.url = url, .host = host, .port = 80, .weight = 1};
}

static inline void fill(struct scene *scene, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char url[64];
        char host[32];
        struct backend *backend = NULL;
        snprintf(host, sizeof(host), "10.1.0.%u", i);
        snprintf(url, sizeof(url), "http://%s", host);
        struct config_backend spec = spec_of(url, host);
        ASSERT(roster_add(scene->roster, &spec, &backend) == STATUS_OK);
    }
}
