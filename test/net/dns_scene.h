// SPDX-License-Identifier: Apache-2.0
//
// dns_scene.h -- what the tests of the resolver share.
#pragma once

#include "net/dns.h"
#include "net/dns_server.h"
#include "test.h"

#include <signal.h>

// A loop, a server and a resolver that asks it.
struct scene {
    struct loop *loop;
    struct dns_server server;
    struct dns *dns;
};

static inline void scene_start(struct scene *scene, const struct dns_record *records,
                               uint32_t record_count, uint32_t timeout_ms)
{
    signal(SIGPIPE, SIG_IGN);
    scene->loop = NULL;
    scene->dns = NULL;
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    dns_server_start(&scene->server, scene->loop, records, record_count);
    struct dns_options options = {
        .servers = scene->server.address, .timeout_ms = timeout_ms, .tries = 2};
    ASSERT(dns_create(scene->loop, &options, &scene->dns) == STATUS_OK);
}

static inline void scene_close(struct scene *scene)
{
    dns_destroy(&scene->dns);
    dns_server_stop(&scene->server);
    loop_destroy(&scene->loop);
}

struct wait {
    uint32_t done_count;
    struct dns_answer answer;
};

static inline void note(void *owner, const struct dns_answer *answer)
{
    struct wait *wait = owner;
    wait->done_count++;
    wait->answer = *answer;
}

// Long enough for every timeout here, several times over.
static inline void wait_for(struct scene *scene, const uint32_t *count, uint32_t target)
{
    uint64_t end_ms = loop_now_ms(scene->loop) + 10000;
    while (*count < target && loop_now_ms(scene->loop) < end_ms) {
        loop_turn(scene->loop, 100);
    }
}

// "10.0.0.1:8000 [::1]:8000"
static inline const char *addresses_text(const struct dns_answer *answer)
{
    static char string[2048];
    struct text text = text_over(string, sizeof(string) - 1);
    for (uint32_t i = 0; i < answer->address_count; i++) {
        text_add_str(&text, i > 0 ? " " : "");
        address_format(&answer->addresses[i], &text);
    }
    string[text.size] = '\0';
    return string;
}
