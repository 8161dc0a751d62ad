// SPDX-License-Identifier: Apache-2.0

#include "config/config.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config_file.h"
#include "config/cross_check.h"
#include "config/draft_internal.h"
#include "config/option/bind_options.h"
#include "config/yaml_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    file_size_max = 1 << 20,

    // Memory for each byte of a file.  Real files need about ten times their size: a node, an
    // entry in a list and the text for each dozen bytes.  The ceiling ends nonsense made of
    // nothing but commas.
    memory_for_byte = 128,
    memory_for_file_max = 24 << 20,
    memory_for_flag = 1024,
    memory_at_least = 64 << 10,
};

static size_t memory_for(struct slice yaml, const struct config_source *flags)
{
    size_t capacity = yaml.size * memory_for_byte;

    capacity = capacity < memory_for_file_max ? capacity : memory_for_file_max;
    for (uint32_t i = 0; i < 2 * flags->value_count; i++) {
        capacity += memory_for_flag + 4 * strlen(flags->values[i]);
    }
    return capacity + memory_at_least;
}

static enum status config_fill(struct config_draft *draft, struct slice yaml,
                               const struct config_source *flags)
{
    struct config_binding program = config_draft_binding(draft);
    struct config_node *root = NULL;

    enum status status = config_assign_defaults(&program);
    if (status == STATUS_OK) {
        snprintf(draft->error->file, sizeof(draft->error->file), "%s", draft->file);
        status = config_yaml_read(yaml, &draft->memory, &root, draft->error);
    }
    if (status == STATUS_OK) {
        status = config_bind_file(draft, root);
    }
    if (status == STATUS_OK) {
        status = config_bind_flags(draft, flags);
    }
    return status == STATUS_OK ? config_cross_check(draft) : status;
}

enum status config_parse(struct slice yaml, const char *file, const struct config_source *flags,
                         struct config **out, struct config_error *error)
{
    static const struct config_source no_flags = {0};
    const struct config_source *source = flags != NULL ? flags : &no_flags;
    struct config_draft draft = {
        .file = file,
        .read = source->read != NULL ? source->read : config_file_read,
        .error = error,
    };

    *error = (struct config_error){0};
    if (yaml.size > file_size_max) {
        enum status malformed =
            config_refuse(&draft, (struct config_place){0},
                          "more than %d bytes, which no configuration needs", file_size_max);
        (void)malformed;
        return STATUS_TOO_LARGE;
    }

    draft.memory.capacity = memory_for(yaml, source);
    draft.memory.bytes = calloc(1, draft.memory.capacity);
    if (draft.memory.bytes == NULL) {
        return config_refuse_size(&draft, (struct config_place){0});
    }
    draft.config = config_memory_take(&draft.memory, sizeof(*draft.config));
    draft.places =
        config_memory_take(&draft.memory, config_options.count * sizeof(draft.places[0]));
    ASSERT(draft.config != NULL && draft.places != NULL);
    draft.config->memory = draft.memory.bytes;

    enum status status = config_fill(&draft, yaml, source);
    if (status == STATUS_OK) {
        *out = draft.config;
        return status;
    }
    config_destroy(&draft.config);
    return status;
}

static enum status refuse_file(const char *path, enum status status, struct config_error *error)
{
    *error = (struct config_error){0};
    snprintf(error->file, sizeof(error->file), "%s", path);
    if (status == STATUS_TOO_LARGE) {
        snprintf(error->text, sizeof(error->text),
                 "more than %d bytes, which no configuration needs", file_size_max);
    } else {
        snprintf(error->text, sizeof(error->text), "cannot read the configuration: %s",
                 strerrordesc_np(errno));
    }
    return status;
}

enum status config_load(const struct config_source *source, struct config **out,
                        struct config_error *error)
{
    if (source->path == NULL) {
        return config_parse(slice_str(""), "command line", source, out, error);
    }
    uint8_t *bytes = malloc(file_size_max);
    size_t size = 0;
    enum status status =
        bytes != NULL ? config_file_read(source->path, bytes, file_size_max, &size) : STATUS_IO;
    status = status == STATUS_OK
                 ? config_parse(slice_of(bytes, size), source->path, source, out, error)
                 : refuse_file(source->path, status, error);
    free(bytes);
    return status;
}

void config_destroy(struct config **config)
{
    if (*config != NULL) {
        free((*config)->memory);
    }
    *config = NULL;
}

const char *config_dns_servers(const struct config *config, char space[config_dns_servers_size])
{
    struct text text = text_over(space, config_dns_servers_size - 1);
    for (uint32_t i = 0; i < config->dns.servers.count; i++) {
        text_add_str(&text, i > 0 ? "," : "");
        text_add_str(&text, config->dns.servers.items[i]);
    }
    space[text.size] = '\0';
    return text.size > 0 ? space : NULL;
}

void config_error_write(const struct config_error *error, struct text *out)
{
    text_add_str(out, error->file);
    if (error->line > 0) {
        text_add_format(out, ":%u:%u", error->line, error->column);
    }
    text_add_format(out, ": %s", error->text);
}
