// SPDX-License-Identifier: Apache-2.0
//
// keeper_scene.h -- what the admin API works on: a loop, a configuration with a token, a fleet that
// nobody asks anything, its roster.  The proxy has not started.
#pragma once

#include "admin/admin.h"
#include "base/base.h"
#include "base/reclaim.h"
#include "config/config.h"
#include "discovery/roster.h"
#include "feed/prober.h"
#include "fleet/fleet.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdio.h>

enum { backend_count_max = 8 };

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct fleet *fleet;
    struct prober *prober;
    struct config *config;
    struct roster *roster;
    struct proxy *proxy; // has not started
    struct admin_options options;
    uint32_t changed_count;
};

static inline void changed(void *owner)
{
    struct scene *scene = owner;
    scene->changed_count++;
}

static inline void scene_open(struct scene *scene, const char *backends)
{
    char yaml[1024];
    struct config_error error;
    *scene = (struct scene){0};
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(yaml, sizeof(yaml),
             "limits: {backends: %d}\nhealth: {interval: 0}\nmodels: {learn: false}\n"
             "pools: [{name: main}, {name: other}]\n"
             "dns: {servers: ['127.0.0.1:1']}\n" // where nobody answers
             "admin: {listen: '127.0.0.1:1', token: t}\nbackends: [%s]",
             backend_count_max, backends);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    reclaim_init(&scene->reclaim, 0);
    ASSERT(config_parse(slice_str(yaml), "test", NULL, &scene->config, &error) == STATUS_OK);
    scene->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = backend_count_max,
                                                       .pool_count = fleet_pool_count_max},
                                &scene->reclaim);
    scene->prober = prober_create(&(struct prober_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    ASSERT(scene->fleet != NULL && scene->prober != NULL);
    scene->roster = roster_create(&(struct roster_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .prober = scene->prober,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    ASSERT(scene->roster != NULL && fleet_publish(scene->fleet));
    scene->options = (struct admin_options){.loop = scene->loop,
                                            .fleet = scene->fleet,
                                            .roster = scene->roster,
                                            .config = &scene->config,
                                            .proxy = &scene->proxy,
                                            .changed = changed,
                                            .owner = scene};
    scene->changed_count = 0;
}

static inline void scene_close(struct scene *scene)
{
    roster_destroy(&scene->roster);
    prober_destroy(&scene->prober);
    fleet_destroy(&scene->fleet);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}
