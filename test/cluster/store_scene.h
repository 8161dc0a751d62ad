// SPDX-License-Identifier: Apache-2.0
//
// store_scene.h -- links in one loop, with notes of what they told, and the log lines they wrote.
#pragma once

#include "cluster/store_link.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    node_count_max = 4,
    node_frame_count_max = 8192,
    scene_log_size = 1 << 16,
    scene_wait_ms = 60000, // a state that takes longer does not come
};

struct node_frame {
    uint64_t from;
    uint32_t number;
    size_t size;
};

struct node {
    struct link *link; // NULL: closed
    uint64_t router;
    uint32_t came_count;
    uint32_t left_count;
    uint64_t came_last;
    uint64_t left_last;
    char name_last[64];
    char hello_last[64];
    uint64_t there; // bits of the nodes that are there
    uint32_t frame_count;
    struct node_frame frames[node_frame_count_max];
    bool is_out_of_order; // of some sender's numbers
    uint32_t number_last[node_count_max];
    bool came_late; // a frame came from a router that was not there
    const char *name;
};

struct store_scene {
    struct loop *loop;
    struct node nodes[node_count_max];
    const char *url;
    const uint8_t *secrets[node_count_max];
    const char *ca;
    bool verify;
    size_t out_size_max; // 0: a megabyte
    int log;             // where standard error goes
    int saved_log;
    uint32_t sent[node_count_max];
};

static struct store_scene scene;

static inline uint32_t node_index(uint64_t router)
{
    return (uint32_t)(router & 0xf);
}

static inline void node_came(void *owner, uint64_t router, const char *name, struct slice hello)
{
    struct node *node = owner;
    node->came_count++;
    node->came_last = router;
    node->there |= 1ULL << node_index(router);
    snprintf(node->name_last, sizeof(node->name_last), "%s", name);
    snprintf(node->hello_last, sizeof(node->hello_last), "%.*s", (int)hello.size,
             (const char *)hello.bytes);
}

static inline void node_left(void *owner, uint64_t router)
{
    struct node *node = owner;
    node->left_count++;
    node->left_last = router;
    node->there &= ~(1ULL << node_index(router));
}

static inline void node_took_frame(void *owner, uint64_t router, struct slice frame)
{
    struct node *node = owner;
    uint32_t number = 0;
    uint32_t from = node_index(router);
    ASSERT(frame.size >= sizeof(number));
    memcpy(&number, frame.bytes, sizeof(number));
    node->came_late |= (node->there & 1ULL << from) == 0;
    node->is_out_of_order |= number <= node->number_last[from];
    node->number_last[from] = number;
    if (node->frame_count < node_frame_count_max) {
        node->frames[node->frame_count++] = (struct node_frame){router, number, frame.size};
    }
}

static const struct link_events node_events = {
    .came = node_came,
    .left = node_left,
    .frame = node_took_frame,
};

static inline void scene_begin(const char *url)
{
    memset(&scene, 0, sizeof(scene));
    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    scene.url = url;
    ASSERT(signal(SIGPIPE, SIG_IGN) != SIG_ERR); // as the program does
    fflush(NULL);
    scene.log = memfd_create("log", MFD_CLOEXEC);
    scene.saved_log = dup(STDERR_FILENO);
    ASSERT(scene.log != -1 && dup2(scene.log, STDERR_FILENO) != -1);
}

static inline enum status scene_try_open(uint32_t at, char error[link_error_size])
{
    static uint64_t generation;
    struct node *node = &scene.nodes[at];
    // Each process has a new id; its last digit is the number of the node.
    memset(node, 0, sizeof(*node));
    node->router = 0xa000000000000000 | ++generation << 8 | (uint64_t)getpid() << 24 | at;
    struct store_options options = {
        .link =
            {
                .loop = scene.loop,
                .events = &node_events,
                .owner = node,
                .router = node->router,
                .hello = slice_str("hello\1"),
                .out_size_max = scene.out_size_max != 0 ? scene.out_size_max : 1 << 20,
            },
        .url = scene.url,
        .ca = scene.ca,
        .verify = scene.verify,
        .cluster = "test",
        .secret = scene.secrets[at],
    };
    snprintf(options.link.name, sizeof(options.link.name), "node %u", at);
    return store_link_open(&options, &node->link, error);
}

static inline void scene_open(uint32_t at)
{
    char error[link_error_size];
    ASSERT(scene_try_open(at, error) == STATUS_OK);
    ASSERT(error[0] == '\0');
}

static inline void scene_close(uint32_t at)
{
    link_close(&scene.nodes[at].link);
}

static inline const char *scene_log(void)
{
    static char text[scene_log_size];
    ssize_t size = pread(scene.log, text, sizeof(text) - 1, 0);
    ASSERT(size >= 0);
    text[size] = '\0';
    return text;
}

static inline uint32_t scene_log_count(const char *part)
{
    uint32_t count = 0;
    for (const char *at = scene_log(); (at = strstr(at, part)) != NULL; at += strlen(part)) {
        count++;
    }
    return count;
}

static inline void scene_end(void)
{
    for (uint32_t i = 0; i < node_count_max; i++) {
        scene_close(i);
    }
    loop_turn(scene.loop, 0);
    loop_destroy(&scene.loop);
    ASSERT(dup2(scene.saved_log, STDERR_FILENO) != -1);
    close(scene.saved_log);
    close(scene.log);
}

static inline uint64_t scene_now_ms(void)
{
    return clock_monotonic_ns() / 1000000;
}

// Turns until the condition holds, which may act each time; the CHECK fails if it never did.
#define TURN_UNTIL(cond)                                                                           \
    do {                                                                                           \
        uint64_t turn_until_ms = scene_now_ms() + scene_wait_ms;                                   \
        bool turn_is_over = (cond);                                                                \
        while (!turn_is_over && scene_now_ms() < turn_until_ms) {                                  \
            loop_turn(scene.loop, 5);                                                              \
            turn_is_over = (cond);                                                                 \
        }                                                                                          \
        if (!turn_is_over) {                                                                       \
            printf("# never: %s\n%s", #cond, scene_log());                                         \
        }                                                                                          \
        CHECK(turn_is_over);                                                                       \
    } while (0)

static inline void scene_turn_for(uint64_t time_ms)
{
    uint64_t until_ms = scene_now_ms() + time_ms;
    while (scene_now_ms() < until_ms) {
        loop_turn(scene.loop, 5);
    }
}

// The next numbered frame of a node; `to` -1: to all.
static inline bool scene_send_sized(uint32_t from, int to, size_t size)
{
    static uint8_t bytes[link_frame_size_max];
    uint32_t number = ++scene.sent[from];
    ASSERT(size >= sizeof(number));
    memcpy(bytes, &number, sizeof(number));
    return link_send(scene.nodes[from].link, to == -1 ? 0 : scene.nodes[to].router,
                     slice_of(bytes, size));
}

static inline bool scene_send(uint32_t from, int to)
{
    return scene_send_sized(from, to, 100);
}

static inline bool scene_are_there(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (scene.nodes[i].there != ((1ULL << count) - 1 - (1ULL << i))) {
            return false;
        }
    }
    return true;
}

static inline bool scene_is_up(uint32_t at)
{
    struct link_status status;
    link_read_status(scene.nodes[at].link, &status);
    return status.is_up;
}
