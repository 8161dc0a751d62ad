// SPDX-License-Identifier: Apache-2.0
//
// For any input, config_parse accepts or refuses it.  A refusal has a complete message that points
// into the text; an accepted configuration has every property that other code relies on without
// checking. Files with secrets are not read from the disk: their path is their content.
//
// An input may begin with flags, one "--name value" on a line, before a line "%%".

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "config/endpoint.h"
#include "fuzz.h"
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { flag_count_max = 64 };

static enum status read_path(const char *path, void *bytes, size_t capacity, size_t *size)
{
    size_t length = strlen(path);
    if (length > capacity) {
        return STATUS_TOO_LARGE;
    }
    if (length % 7 == 3) {
        errno = ENOENT;
        return STATUS_IO;
    }
    memcpy(bytes, path, length);
    *size = length;
    return STATUS_OK;
}

// Cuts "--name value" lines out of `text` until "%%"; returns what follows, or all of it when there
// are none.
static char *cut_flags(char *text, const char **values, uint32_t *count)
{
    if (strncmp(text, "--", 2) != 0 || strstr(text, "\n%%\n") == NULL) {
        return text;
    }
    while (strncmp(text, "%%\n", 3) != 0) {
        char *end = strchr(text, '\n');
        ASSERT(end != NULL);
        *end = '\0';
        char *space = strchr(text, ' ');
        if (space != NULL && *count < flag_count_max) {
            *space = '\0';
            values[2 * (size_t)*count] = text;
            values[2 * (size_t)*count + 1] = space + 1;
            *count += 1;
        }
        text = end + 1;
    }
    return text + 3;
}

static void check_list(const struct config_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        ASSERT(list->items[i] != NULL && list->items[i][0] != '\0');
    }
}

static void check_backend(const struct config *config, const struct config_backend *backend)
{
    struct config_endpoint parts;

    ASSERT(config_url_split(slice_str(backend->url), &parts) == NULL);
    ASSERT(slice_is(parts.host, backend->host) && backend->host[0] != '\0');
    ASSERT(backend->port == parts.port && backend->port != 0);
    ASSERT(backend->pool < config->pool_count);
    ASSERT(backend->weight >= 1 && backend->weight <= 256);
    check_list(&backend->models);
    ASSERT(config->authorization != CONFIG_AUTHORIZATION_REPLACE || config->api_key != NULL ||
           backend->api_key != NULL);
}

static void check_config(const struct config *config)
{
    struct config_endpoint parts;

    ASSERT(config->listen.count > 0);
    check_list(&config->listen);
    for (uint32_t i = 0; i < config->listen.count; i++) {
        ASSERT(config_address_split(slice_str(config->listen.items[i]), &parts) == NULL);
    }
    check_list(&config->session_headers);
    check_list(&config->blocked_paths);
    check_list(&config->dns.servers);
    ASSERT(policy_find(config->policy) != NULL);
    ASSERT(config->load_bound_percent >= 100 && config->health.path[0] == '/');
    ASSERT((config->tls.key == NULL) == (config->tls.certificate == NULL));
    ASSERT(config->admin.listen == NULL || config->admin.token != NULL);
    ASSERT(config->limits.uri_size <= config->limits.header_size);
    ASSERT(config->limits.body_size <= config->limits.body_memory);
    ASSERT(config->backend_count <= config->limits.backends);
    ASSERT(config->backend_count > 0 || config->admin.listen != NULL);
    ASSERT(config->pool_count > 0);
    for (uint32_t i = 0; i < config->pool_count; i++) {
        ASSERT(policy_find(config->pools[i].policy) != NULL && config->pools[i].name[0] != '\0');
        check_list(&config->pools[i].models);
    }
    for (uint32_t i = 0; i < config->backend_count; i++) {
        check_backend(config, &config->backends[i]);
    }
}

static void check_error(const struct config_error *error, struct slice yaml)
{
    uint32_t lines = 2; // the end of the text counts as a line of its own
    for (size_t i = 0; i < yaml.size; i++) {
        // Carriage returns and the line breaks of Unicode count as well; each has at least a byte
        // below 0x20 or above 0x7f.
        lines += yaml.bytes[i] < 0x20 || yaml.bytes[i] > 0x7f;
    }
    ASSERT(error->text[0] != '\0' && error->file[0] != '\0');
    ASSERT(memchr(error->text, '\0', sizeof(error->text)) != NULL);
    ASSERT(error->line <= lines && (error->line == 0) == (error->column == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *values[2 * flag_count_max];
    struct config_source source = {.values = values, .read = read_path};
    struct config *config = NULL;
    struct config_error error;

    char *text = malloc(size + 1);
    ASSERT(text != NULL);
    if (size > 0) {
        memcpy(text, bytes, size);
    }
    text[size] = '\0';
    char *yaml_text = cut_flags(text, values, &source.value_count);
    struct slice yaml = slice_of(yaml_text, size - (size_t)(yaml_text - text));

    enum status status = config_parse(yaml, "file", &source, &config, &error);
    // The configuration must not lean on what it was read from.
    memset(text, 0xff, size);
    if (status == STATUS_OK) {
        check_config(config);
    } else {
        ASSERT(config == NULL);
        check_error(&error, slice_of(bytes, size));
    }
    config_destroy(&config);
    free(text);
    return 0;
}
