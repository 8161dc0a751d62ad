// SPDX-License-Identifier: Apache-2.0
//
// api_scene.h -- calls of the admin API without sockets: the answer is taken apart for the test.
// The scribe is one that the test tells what to say.
#pragma once

#include "admin/admin_api.h"
#include "admin/keeper_scene.h"
#include "admin/told_scribe.h"
#include "base/text.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

// The last answer.
static struct {
    char bytes[65536];
    size_t size;
    int status;
    cJSON *json; // NULL: no document
    char message[512];
} answer;

static inline void close_all(struct scene *scene)
{
    cJSON_Delete(answer.json);
    answer.json = NULL;
    scene_close(scene);
}

// As the keeper does after a change.
static inline const struct fleet_view *publish(struct scene *scene)
{
    ASSERT(fleet_publish(scene->fleet));
    fleet_reclaim(scene->fleet);
    return fleet_view(scene->fleet);
}

// Every answer is one whole message that ends the connection.
static inline void read_answer(void)
{
    answer.bytes[answer.size] = '\0';
    cJSON_Delete(answer.json);
    answer.json = NULL;
    answer.message[0] = '\0';
    ASSERT(strncmp(answer.bytes, "HTTP/1.1 ", 9) == 0);
    answer.status = (int)strtol(answer.bytes + 9, NULL, 10);
    const char *body = strstr(answer.bytes, "\r\n\r\n");
    ASSERT(body != NULL && strstr(answer.bytes, "\r\nconnection: close\r\n") != NULL);
    body += 4;
    const char *length = strstr(answer.bytes, "\r\ncontent-length: ");
    if (answer.status == 204) {
        ASSERT(length == NULL && *body == '\0');
        return;
    }
    ASSERT(length != NULL &&
           strstr(answer.bytes, "\r\ncontent-type: application/json\r\n") != NULL);
    ASSERT(strtoul(length + 18, NULL, 10) == strlen(body));
    answer.json = cJSON_Parse(body);
    ASSERT(cJSON_IsObject(answer.json));
    const cJSON *error = cJSON_GetObjectItem(answer.json, "error");
    if (error != NULL) {
        snprintf(answer.message, sizeof(answer.message), "%s",
                 cJSON_GetStringValue(cJSON_GetObjectItem(error, "message")));
    }
}

static inline int call_with(struct scene *scene, const char *method, const char *target,
                            const char *body, size_t capacity)
{
    struct text out = text_over(answer.bytes, capacity);
    struct admin_request request = {.method = slice_str(method),
                                    .path = slice_of(target, strcspn(target, "?")),
                                    .target = slice_str(target),
                                    .body = slice_str(body)};
    admin_api_respond(&scene->options, &request, loop_now_ms(scene->loop), 61999, &out);
    ASSERT(!out.overflow);
    answer.size = out.size;
    read_answer();
    return answer.status;
}

static inline int call(struct scene *scene, const char *method, const char *target,
                       const char *body)
{
    return call_with(scene, method, target, body, sizeof(answer.bytes) - 1);
}

static inline const char *text_at(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text == NULL ? "(no string)" : text;
}

// -1 when there is none.
static inline int64_t number_at(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : -1;
}

// "/backends/ID" of the backend at a place in the fleet.
static inline const char *path_of(const struct scene *scene, uint32_t position, const char *rest)
{
    static char path[64];
    snprintf(path, sizeof(path), "/backends/%lu%s",
             (unsigned long)fleet_at(scene->fleet, position)->id, rest);
    return path;
}

static const char two[] __attribute__((unused)) =
    "'http://10.0.0.1:8000', "
    "{url: 'https://[2001:db8::1]', weight: 3, pool: other, models: [m, 'n\"']}";
