// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_endpoint.h"

#include "base/base.h"
#include "base/text.h"
#include "config/endpoint.h"
#include "feed/models_list.h"
#include "fleet/fleet.h"
#include "net/fetch.h"
#include "sys/loop.h"

#include <stdio.h>

enum { turn_ms = 100, ask_ms = 10000 };

// Splits a URL into scheme with host, and path.
static struct slice cut_base(const char *url, const char **base)
{
    const char *host = strstr(url, "://");
    const char *slash = strchr(host != NULL ? host + strlen("://") : url, '/');
    *base = slash != NULL ? slash : "";
    return slice_of(url, slash != NULL ? (size_t)(slash - url) : strlen(url));
}

// Blanks and control characters would end the first line of a request.
static bool is_path(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] <= ' ' || text[i] == '?' || text[i] == '#' || text[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static const char *take_base(const char *base, struct drive_endpoint *out)
{
    size_t size = strlen(base);
    while (size > 0 && base[size - 1] == '/') {
        size--;
    }
    if (size >= strlen("/v1") && memcmp(base + size - strlen("/v1"), "/v1", strlen("/v1")) == 0) {
        size -= strlen("/v1");
    }
    if (size >= sizeof(out->base) || !is_path(base, size)) {
        return "the path of the URL is too long or has characters that do not belong there";
    }
    snprintf(out->base, sizeof(out->base), "%.*s", (int)size, base);
    return NULL;
}

const char *drive_endpoint_parse(const char *url, struct drive_endpoint *out)
{
    const char *base = NULL;
    struct config_endpoint parts;
    struct drive_endpoint endpoint = {0};

    const char *wrong = config_url_split(cut_base(url, &base), &parts);
    if (wrong == NULL) {
        wrong = take_base(base, &endpoint);
    }
    if (wrong != NULL) {
        return wrong;
    }
    if (parts.host.size >= sizeof(endpoint.host)) {
        return "the host is too long";
    }
    memcpy(endpoint.host, parts.host.bytes, parts.host.size);
    endpoint.port = parts.port;
    endpoint.tls = parts.tls;
    bool is_v6 = strchr(endpoint.host, ':') != NULL;
    snprintf(endpoint.authority, sizeof(endpoint.authority), is_v6 ? "[%s]:%u" : "%s:%u",
             endpoint.host, endpoint.port);
    *out = endpoint;
    return NULL;
}

struct lookup {
    struct drive_endpoint *endpoint;
    const char *why;
    bool is_done;
};

static void endpoint_resolved(void *owner, const struct dns_answer *answer)
{
    struct lookup *lookup = owner;
    lookup->is_done = true;
    if (answer->status != STATUS_OK) {
        lookup->why = answer->why;
        return;
    }
    memcpy(lookup->endpoint->addresses, answer->addresses, sizeof(answer->addresses));
    lookup->endpoint->address_count = answer->address_count;
}

bool drive_endpoint_resolve(struct drive_endpoint *endpoint, struct loop *loop,
                            char error[drive_error_size])
{
    struct lookup lookup = {.endpoint = endpoint};
    struct dns *dns = NULL;

    if (dns_create(loop, NULL, &dns) != STATUS_OK) {
        snprintf(error, drive_error_size, "names cannot be looked up");
        return false;
    }
    dns_resolve(dns, endpoint->host, endpoint->port, endpoint_resolved, &lookup);
    while (!lookup.is_done) {
        loop_turn(loop, turn_ms);
    }
    dns_destroy(&dns);
    if (lookup.why != NULL) {
        snprintf(error, drive_error_size, "%.128s: %s", endpoint->host, lookup.why);
    }
    return lookup.why == NULL;
}

void drive_endpoint_add_head(const struct drive_endpoint *endpoint, enum drive_api api,
                             const char *authorization, struct text *out)
{
    text_add_format(out, "POST %s%s HTTP/1.1\r\nhost: %s\r\nuser-agent: warmpath/%s\r\n",
                    endpoint->base, drive_apis[api].path, endpoint->authority, WARMPATH_VERSION);
    text_add_str(out, "content-type: application/json\r\naccept: */*\r\n");
    if (authorization != NULL && authorization[0] != '\0') {
        text_add_format(out, "authorization: %s\r\n", authorization);
    }
}

struct fetch *drive_endpoint_fetch(const struct drive_endpoint *endpoint, uint32_t address,
                                   const char *authorization, struct fetch_options options)
{
    char path[drive_path_max];
    bool has_key = authorization != NULL && authorization[0] != '\0';
    const struct fetch_peer peer = {
        .address = endpoint->addresses[address],
        .host = endpoint->host,
        .authority = endpoint->authority,
        .authorization = has_key ? authorization : NULL,
        .tls = endpoint->tls,
    };

    int size = snprintf(path, sizeof(path), "%s%s", endpoint->base, options.path);
    ASSERT(size > 0 && (size_t)size < sizeof(path));
    options.peer = &peer;
    options.path = path;
    return fetch_start(&options);
}

struct endpoint_get {
    fetch_done_fn *done;
    void *owner;
    bool is_done;
};

static void endpoint_got(void *owner, const struct fetch_result *result)
{
    struct endpoint_get *get = owner;
    get->is_done = true;
    get->done(get->owner, result);
}

bool drive_endpoint_get(const struct drive_endpoint *endpoint, const char *authorization,
                        struct fetch_options options)
{
    struct endpoint_get get = {.done = options.done, .owner = options.owner};
    options.timeout_ms = ask_ms;
    options.done = endpoint_got;
    options.owner = &get;
    struct fetch *fetch = drive_endpoint_fetch(endpoint, 0, authorization, options);
    while (fetch != NULL && !get.is_done) {
        loop_turn(options.loop, turn_ms);
    }
    return fetch != NULL;
}

struct endpoint_question {
    char *model;
    char *error;
    bool has_responded;
};

static void endpoint_responded(void *owner, const struct fetch_result *result)
{
    struct endpoint_question *question = owner;
    struct models_list list;

    question->has_responded = result->status != 0;
    if (result->status == 0) {
        snprintf(question->error, drive_error_size, "%s", result->why);
    }
    if (result->status != 200 || models_list_read(result->body, &list) != STATUS_OK) {
        return;
    }
    if (list.count > 0) {
        snprintf(question->model, drive_text_max, "%s", list.models[0].name);
    }
    models_list_free(&list);
}

bool drive_endpoint_ask(const struct drive_endpoint *endpoint, struct loop *loop,
                        struct tls_context *tls, const char *authorization,
                        char model[drive_text_max], char error[drive_error_size])
{
    struct endpoint_question question = {.model = model, .error = error};

    model[0] = '\0';
    struct fetch_options options = {.loop = loop,
                                    .tls = tls,
                                    .path = "/v1/models",
                                    .done = endpoint_responded,
                                    .owner = &question};
    if (!drive_endpoint_get(endpoint, authorization, options)) {
        snprintf(error, drive_error_size, "memory or descriptors are short");
    }
    return question.has_responded;
}
