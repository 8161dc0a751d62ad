// SPDX-License-Identifier: Apache-2.0
//
// engine_rig.h -- one simulated server on a loop of the test's own, and clients that turn it while
// they wait.
#pragma once

#include "base/text.h"
#include "engine/engine_site_internal.h"
#include "net/tcp.h"
#include "test.h"

#include <stdlib.h>

enum { rig_response_max = 1 << 20, rig_wait_ms = 10000 };

struct engine_rig {
    struct engine_group group;
    struct engine_site site;
    struct profile profile;
    uint32_t told; // orders for all
    bool told_clear;
    char told_body[256]; // the last one's
};

static inline void rig_note_order(void *owner, struct slice body, bool is_clear)
{
    struct engine_rig *rig = owner;
    rig->told++;
    rig->told_clear = is_clear;
    snprintf(rig->told_body, sizeof(rig->told_body), "%.*s", (int)body.size,
             body.size > 0 ? (const char *)body.bytes : "");
}

static inline void rig_open_with(struct engine_rig *rig, double speed, uint32_t rank_count)
{
    static const char *const adapters[] = {"lora"};
    struct engine_server_options options = {.host = "127.0.0.1",
                                            .profile = &rig->profile,
                                            .rank_count = rank_count,
                                            .speed = speed,
                                            .adapters = adapters,
                                            .adapter_count = 1,
                                            .output_tokens = 4};
    char error[engine_server_error_size];

    *rig = (struct engine_rig){0};
    ASSERT(profile_find("codellama-13b", &rig->profile));
    ASSERT(loop_create(&rig->group.loop) == STATUS_OK);
    rig->group.tell_all = rig_note_order;
    rig->group.owner = rig;
    rig->group.reader = prompt_reader_create();
    rig->group.scratch_size = 65536 + engine_response_document_room(rig->profile.context_max);
    rig->group.scratch = malloc(rig->group.scratch_size);
    ASSERT(rig->group.reader != NULL && rig->group.scratch != NULL);
    ASSERT(engine_site_open(&rig->site, &rig->group, &options, 0, error) == STATUS_OK);
}

static inline void rig_open(struct engine_rig *rig, double speed)
{
    rig_open_with(rig, speed, 1);
}

static inline void rig_close(struct engine_rig *rig)
{
    engine_site_disconnect(&rig->site);
    loop_turn(rig->group.loop, 0);
    engine_site_close(&rig->site);
    loop_turn(rig->group.loop, 0);
    ASSERT(rig->group.held_size == 0);
    loop_destroy(&rig->group.loop);
    prompt_reader_destroy(&rig->group.reader);
    free(rig->group.scratch);
}

static inline int rig_connect(const struct engine_rig *rig)
{
    int fd = -1;
    ASSERT(tcp_connect(&rig->site.address, &fd) == STATUS_OK);
    return fd;
}

static inline void rig_send(struct engine_rig *rig, int fd, struct slice bytes)
{
    while (bytes.size > 0) {
        size_t size = 0;
        enum status status = tcp_write(fd, &bytes, 1, &size);
        ASSERT(status == STATUS_OK || status == STATUS_AGAIN);
        if (status == STATUS_OK) {
            bytes = slice_of(bytes.bytes + size, bytes.size - size);
        }
        loop_turn(rig->group.loop, 0);
    }
}

// The bytes that have come on a connection so far, with a zero behind them.
struct rig_response {
    size_t size;
    enum status end; // AGAIN: it has not ended
    char text[rig_response_max];
};

// Reads until `wanted` has come or the connection has ended; false: it ended, or took too long.
static inline bool rig_read(struct engine_rig *rig, int fd, const char *wanted,
                            struct rig_response *out)
{
    uint64_t until_ms = loop_now_ms(rig->group.loop) + rig_wait_ms;

    out->size = 0;
    out->text[0] = '\0';
    out->end = STATUS_AGAIN;
    while (wanted == NULL || strstr(out->text, wanted) == NULL) {
        size_t size = 0;
        out->end = tcp_read(fd, out->text + out->size, rig_response_max - 1 - out->size, &size);
        if (out->end == STATUS_OK) {
            out->size += size;
            out->text[out->size] = '\0';
        } else if (out->end != STATUS_AGAIN || loop_now_ms(rig->group.loop) > until_ms) {
            return wanted == NULL && out->end != STATUS_AGAIN;
        }
        loop_turn(rig->group.loop, 1);
    }
    out->end = STATUS_AGAIN;
    return true;
}

// The whole answer to one request, on a connection of its own that ends with it.  `lines` of the
// head end with \r\n each.
static inline const char *rig_ask_with(struct engine_rig *rig, const char *method, const char *path,
                                       const char *lines, const char *body)
{
    static struct rig_response answer;
    static char request[65536];
    struct text text = text_over(request, sizeof(request));
    int fd = rig_connect(rig);

    text_add_format(&text, "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", method, path);
    text_add_format(&text, "%sContent-Length: %zu\r\n\r\n", lines, strlen(body));
    text_add_str(&text, body);
    ASSERT(!text.overflow);
    rig_send(rig, fd, text_slice(&text));
    (void)rig_read(rig, fd, NULL, &answer);
    tcp_close(&fd);
    loop_turn(rig->group.loop, 0);
    return answer.text;
}

static inline const char *rig_ask(struct engine_rig *rig, const char *method, const char *path,
                                  const char *body)
{
    return rig_ask_with(rig, method, path, "", body);
}

static inline bool rig_begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static inline bool rig_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

// The number behind the first `name` in a page of metrics or a document; -1: there is none.
static inline double rig_number(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found != NULL ? strtod(found + strlen(name), NULL) : -1;
}
