// SPDX-License-Identifier: Apache-2.0

#include "admin/backend_body.h"

#include "base/base.h"
#include "config/backend_events.h"
#include "config/endpoint.h"
#include "config/option/option.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool body_refuse(struct text *why, const char *reason)
{
    text_add_str(why, reason);
    return false;
}

static bool body_is_object(struct slice body, struct text *why)
{
    struct json json = json_open(body);
    struct json_item item;
    bool is_object = json_next(&json, &item) && item.value.kind == JSON_OBJECT;

    if (json_close(&json) != STATUS_OK || !is_object) {
        return body_refuse(why, "it is not a JSON object");
    }
    return true;
}

struct body_reader {
    const struct config *config;
    struct backend_body *out;
    struct text *why;
};

// One member that a body may have.
struct body_field {
    const char *name; // that of the configuration's row
    bool (*read)(const struct body_field *field, const struct body_reader *reader,
                 const struct json_value *value);
    size_t offset; // in struct config_backend; only for body_row
};

// NULL: not a string, or one with a NUL or half a surrogate pair in it.
static const char *body_string(const struct body_reader *reader, const struct json_value *value)
{
    struct text *strings = &reader->out->strings;
    char *start = (char *)strings->bytes + strings->size;
    size_t room = strings->capacity - strings->size;
    struct slice decoded;

    if (value->kind != JSON_STRING ||
        json_string_decode(value->raw, start, room, &decoded) != STATUS_OK ||
        decoded.size >= room || memchr(decoded.bytes, '\0', decoded.size) != NULL) {
        return NULL;
    }
    memmove(start, decoded.bytes, decoded.size);
    start[decoded.size] = '\0';
    strings->size += decoded.size + 1;
    return start;
}

static bool body_weight(const struct json_value *value, uint32_t *weight, struct text *why)
{
    const struct config_option *option = config_option_find(&config_backend_options, "weight");
    char digits[32];
    char reason[128];
    struct text ignored = text_over(reason, sizeof(reason));

    snprintf(digits, sizeof(digits), "%.15g", json_number(value)); // "nan" is not a count
    if (!option->kind->read(option, digits, weight, &ignored)) {
        text_add_format(why, "weight must be a whole number from %s to %s", option->low,
                        option->high);
        return false;
    }
    return true;
}

static bool body_read_weight(const struct body_field *field, const struct body_reader *reader,
                             const struct json_value *value)
{
    (void)field;
    return body_weight(value, &reader->out->spec.weight, reader->why);
}

static bool body_read_url(const struct body_field *field, const struct body_reader *reader,
                          const struct json_value *value)
{
    struct backend_body *out = reader->out;
    const char *url = body_string(reader, value);
    struct config_endpoint endpoint;
    (void)field;

    if (url == NULL) {
        return body_refuse(reader->why, "url is missing or not a string");
    }
    const char *wrong = config_url_split(slice_str(url), &endpoint);
    if (wrong == NULL && endpoint.host.size >= sizeof(out->host)) {
        wrong = "the host is too long";
    }
    if (wrong != NULL) {
        return body_refuse(reader->why, wrong);
    }
    memcpy(out->host, endpoint.host.bytes, endpoint.host.size);
    out->host[endpoint.host.size] = '\0';
    out->spec.url = url;
    out->spec.host = out->host;
    out->spec.port = endpoint.port;
    out->spec.tls = endpoint.tls;
    return true;
}

static bool body_read_pool(const struct body_field *field, const struct body_reader *reader,
                           const struct json_value *value)
{
    const struct config *config = reader->config;
    const char *name = body_string(reader, value);
    (void)field;

    for (uint32_t i = 0; name != NULL && i < config->pool_count; i++) {
        if (strcmp(config->pools[i].name, name) == 0) {
            reader->out->spec.pool = i;
            return true;
        }
    }
    return body_refuse(reader->why, "unknown pool");
}

static bool body_read_models(const struct body_field *field, const struct body_reader *reader,
                             const struct json_value *value)
{
    struct backend_body *out = reader->out;
    struct json json = json_inside(value->raw);
    struct json_item item;
    bool is_good = value->kind == JSON_ARRAY;
    (void)field;

    while (is_good && json_next(&json, &item)) {
        const char *name = body_string(reader, &item.value);
        is_good =
            name != NULL && name[0] != '\0' && out->spec.models.count < backend_body_models_max;
        if (is_good) {
            out->models[out->spec.models.count++] = name;
        }
    }
    out->spec.models.items = out->models;
    return is_good || body_refuse(reader->why, "models must be a list of at most 256 names");
}

// It goes into a header of every request to the backend.
static bool body_read_key(const struct body_field *field, const struct body_reader *reader,
                          const struct json_value *value)
{
    const char *key = body_string(reader, value);
    (void)field;

    if (key == NULL || !config_secret_is_sound(slice_str(key))) {
        return body_refuse(reader->why, "api_key must be visible ASCII characters without spaces");
    }
    reader->out->spec.api_key = key;
    return true;
}

// As the configuration reads the row of that name.
static bool body_read_row(const struct body_field *field, const struct body_reader *reader,
                          const struct json_value *value)
{
    const struct config_option *option = config_option_find(&config_backend_options, field->name);
    const char *text = body_string(reader, value);
    struct text *strings = &reader->out->strings;
    size_t reason_start = reader->why->size;

    if (value->kind == JSON_NUMBER) {
        text = (const char *)strings->bytes + strings->size;
        text_add_format(strings, "%.15g", json_number(value));
        text_add(strings, slice_of("", 1));
    }
    text_add_format(reader->why, "%s: ", field->name);
    if (text == NULL || strings->overflow) {
        return body_refuse(reader->why, "takes one value");
    }
    if (!option->kind->read(option, text, (char *)&reader->out->spec + field->offset,
                            reader->why)) {
        return false;
    }
    reader->why->size = reason_start;
    return true;
}

static const struct body_field body_fields[] = {
    {"url", body_read_url, 0},
    {"weight", body_read_weight, 0},
    {"pool", body_read_pool, 0},
    {"models", body_read_models, 0},
    {"api_key", body_read_key, 0},
    {"ranks", body_read_row, offsetof(struct config_backend, ranks)},
    {"events", body_read_row, offsetof(struct config_backend, events)},
    {"events_replay", body_read_row, offsetof(struct config_backend, events_replay)},
    {"events_topic", body_read_row, offsetof(struct config_backend, events_topic)},
};

static bool body_read_member(const struct body_reader *reader, const struct json_item *item)
{
    for (size_t i = 0; i < ARRAY_COUNT(body_fields); i++) {
        if (json_string_is(item->key, body_fields[i].name)) {
            return body_fields[i].read(&body_fields[i], reader, &item->value);
        }
    }
    text_add(reader->why, item->key);
    return false;
}

static bool body_check_events(const struct body_reader *reader)
{
    char reason_space[512];
    struct text reason = text_over(reason_space, sizeof(reason_space));
    const char *row;

    if (config_backend_events_check(reader->config, &reader->out->spec, &row, &reason)) {
        return true;
    }
    text_add_format(reader->why, "%s: ", row);
    text_add(reader->why, text_slice(&reason));
    return false;
}

bool backend_body_read(const struct config *config, struct slice body, struct backend_body *out,
                       struct text *why)
{
    // The quotes of a string take more bytes than its NUL; numbers may grow when they are written
    // out.
    size_t capacity = body.size + 256;
    uint8_t *space = malloc(capacity);
    struct body_reader reader = {.config = config, .out = out, .why = why};
    struct json json = json_inside(body);
    struct json_item item;

    *out = (struct backend_body){.spec = {.weight = 1, .ranks = 1},
                                 .strings = text_over(space, capacity)};
    if (space == NULL) {
        return false;
    }
    if (!body_is_object(body, why)) {
        return false;
    }
    bool is_good = true;
    while (is_good && json_next_whole(&json, &item)) {
        is_good = body_read_member(&reader, &item);
    }
    if (is_good && out->spec.url == NULL) {
        return body_refuse(why, "url is missing");
    }
    return is_good && body_check_events(&reader);
}

void backend_body_free(struct backend_body *body)
{
    free(body->strings.bytes);
    body->strings = (struct text){0};
}

// The value of the body's only member, which must be called `name`; otherwise `reason` is the
// reason.
static bool body_only_member(struct slice body, const char *name, const char *reason,
                             struct json_value *out, struct text *why)
{
    struct json json = json_inside(body);
    struct json_item item;

    if (!body_is_object(body, why)) {
        return false;
    }
    if (!json_next(&json, &item) || !json_string_is(item.key, name)) {
        return body_refuse(why, reason);
    }
    *out = item.value;
    return !json_next(&json, &item) || body_refuse(why, reason);
}

bool backend_body_read_weight(struct slice body, uint32_t *weight, struct text *why)
{
    struct json_value value;
    return body_only_member(body, "weight", "only weight can be changed", &value, why) &&
           body_weight(&value, weight, why);
}

bool backend_body_read_url(struct slice body, char url[backend_body_url_size], struct text *why)
{
    static const char reason[] = "it takes a url and nothing else";
    struct json_value value;
    struct slice decoded;

    if (!body_only_member(body, "url", reason, &value, why)) {
        return false;
    }
    if (value.kind != JSON_STRING ||
        json_string_decode(value.raw, url, backend_body_url_size - 1, &decoded) != STATUS_OK ||
        decoded.size >= backend_body_url_size) {
        return body_refuse(why, reason);
    }
    memmove(url, decoded.bytes, decoded.size);
    url[decoded.size] = '\0';
    return true;
}
