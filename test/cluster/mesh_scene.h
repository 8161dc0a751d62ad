// SPDX-License-Identifier: Apache-2.0
//
// mesh_scene.h -- routers of one process that talk over loopback, each with a loop of its own, so
// that a test can let one of them stand still.  A router notes all it is told.
#pragma once

#include "base/text.h"
#include "cluster/mesh_link.h"
#include "net/tcp.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    scene_router_count = 4,
    scene_event_count_max = 256,
    scene_frame_size_max = 48,
    scene_out_size = 256 << 10,
    scene_patience_ms = 30000, // of a busy machine
};

static const uint8_t scene_key[link_secret_size] = "all routers of the scene know it";
static const uint8_t scene_other_key[link_secret_size] = "a key that none of them knows...";

struct scene_router {
    struct loop *loop;
    struct link *link;
    char address[64];
    uint64_t id;
    bool is_still; // its loop is not turned
    uint32_t came_count;
    uint32_t left_count;
    uint32_t frame_count;
    uint64_t frame_bytes;
    uint64_t last_from;
    uint64_t there; // bit i: the router with id i + 1 is there
    char last_name[link_name_size];
    char last_hello[link_hello_size_max + 1];
    char frames[scene_event_count_max][scene_frame_size_max]; // the first, cut
    bool echoes;                                              // sends each frame back
};

struct scene {
    struct scene_router routers[scene_router_count];
};

static inline void scene_came(void *owner, uint64_t router, const char *name, struct slice hello)
{
    struct scene_router *self = owner;
    ASSERT(router >= 1 && router <= 64 && router != self->id);
    uint64_t bit = 1ULL << (router - 1);
    ASSERT((self->there & bit) == 0);
    self->there |= bit;
    self->came_count++;
    snprintf(self->last_name, sizeof(self->last_name), "%s", name);
    snprintf(self->last_hello, sizeof(self->last_hello), "%.*s", (int)hello.size,
             (const char *)hello.bytes);
}

static inline void scene_left(void *owner, uint64_t router)
{
    struct scene_router *self = owner;
    uint64_t bit = 1ULL << (router - 1);
    ASSERT((self->there & bit) != 0);
    self->there &= ~bit;
    self->left_count++;
}

static inline void scene_frame(void *owner, uint64_t router, struct slice frame)
{
    struct scene_router *self = owner;
    ASSERT((self->there & 1ULL << (router - 1)) != 0);
    self->last_from = router;
    self->frame_bytes += frame.size;
    if (self->frame_count < scene_event_count_max) {
        snprintf(self->frames[self->frame_count], scene_frame_size_max, "%.*s", (int)frame.size,
                 (const char *)frame.bytes);
    }
    self->frame_count++;
    if (self->echoes) {
        (void)link_send(self->link, router, frame);
    }
}

static const struct link_events scene_events = {scene_came, scene_left, scene_frame};

static inline struct mesh_options scene_options(struct scene *scene, uint32_t index)
{
    struct scene_router *router = &scene->routers[index];
    struct mesh_options options = {
        .link =
            {
                .loop = router->loop,
                .events = &scene_events,
                .owner = router,
                .router = index + 1,
                .hello = slice_str("shape"),
                .out_size_max = scene_out_size,
            },
        .listen = router->address,
        .shared_key = scene_key,
    };
    router->id = index + 1;
    snprintf(options.link.name, sizeof(options.link.name), "router-%u", index + 1);
    return options;
}

static inline void scene_open_with(struct scene *scene, uint32_t index,
                                   const struct mesh_options *options)
{
    char error[link_error_size];

    if (mesh_link_open(options, &scene->routers[index].link, error) != STATUS_OK) {
        fprintf(stderr, "# %s\n", error);
        ASSERT(false);
    }
}

// Opens the link of a router that dials those of `peers`.
static inline void scene_open(struct scene *scene, uint32_t index, const uint32_t *peers,
                              uint32_t count)
{
    const char *addresses[scene_router_count];
    struct mesh_options options = scene_options(scene, index);

    for (uint32_t i = 0; i < count; i++) {
        addresses[i] = scene->routers[peers[i]].address;
    }
    options.peers = addresses;
    options.peer_count = count;
    scene_open_with(scene, index, &options);
}

// Routers have loopback addresses of their own, made of the number of the process: all know all
// before one listens, and no other process takes a port that a router has left.
static inline void scene_start(struct scene *scene)
{
    *scene = (struct scene){0};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_ERROR);
    for (uint32_t i = 0; i < scene_router_count; i++) {
        struct scene_router *router = &scene->routers[i];
        uint32_t host = (uint32_t)getpid() * scene_router_count + i;
        ASSERT(loop_create(&router->loop) == STATUS_OK);
        snprintf(router->address, sizeof(router->address), "127.%u.%u.%u:7946", host >> 16 & 255,
                 host >> 8 & 255, host & 255);
    }
}

static inline void scene_turn(struct scene *scene)
{
    for (uint32_t i = 0; i < scene_router_count; i++) {
        if (!scene->routers[i].is_still) {
            loop_turn(scene->routers[i].loop, i == 0);
        }
    }
}

static inline void scene_stop(struct scene *scene)
{
    for (uint32_t i = 0; i < scene_router_count; i++) {
        link_close(&scene->routers[i].link);
        ASSERT(scene->routers[i].link == NULL);
        loop_destroy(&scene->routers[i].loop);
    }
}

static inline uint64_t scene_now_ms(void)
{
    return clock_monotonic_ns() / 1000000;
}

static inline struct link_status *scene_status(struct scene *scene, uint32_t index)
{
    static struct link_status status;
    link_read_status(scene->routers[index].link, &status);
    return &status;
}

// Whether a router knows of this failure.
static inline bool scene_has_why(struct scene *scene, uint32_t index, const char *why)
{
    const struct link_status *status = scene_status(scene, index);
    for (uint32_t i = 0; i < status->peer_count; i++) {
        if (strstr(status->peers[i].why, why) != NULL) {
            return true;
        }
    }
    return false;
}

#define SCENE_UNTIL(scene, condition)                                                              \
    do {                                                                                           \
        uint64_t scene_end_ms = scene_now_ms() + scene_patience_ms;                                \
        while (!(condition) && scene_now_ms() < scene_end_ms) {                                    \
            scene_turn(scene);                                                                     \
        }                                                                                          \
        CHECK(condition);                                                                          \
    } while (0)

// Turns for a time in which something must not happen.
static inline void scene_turn_for(struct scene *scene, uint64_t time_ms)
{
    uint64_t end_ms = scene_now_ms() + time_ms;
    while (scene_now_ms() < end_ms) {
        scene_turn(scene);
    }
}
