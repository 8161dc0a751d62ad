// SPDX-License-Identifier: Apache-2.0

#include "keeper/dialects.h"

#include "base/base.h"
#include "config/config_file.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    // The largest published ones have 33 MB.
    tokenizer_size_max = 256 << 20,
    config_size_max = 16 << 20,
    template_size_max = 1 << 20,
    path_size = 4096,
};

struct file {
    uint8_t *bytes;
    size_t size;
};

static enum status dialects_read_file(const char *path, size_t capacity, struct file *out,
                                      char error[dialect_error_size])
{
    out->bytes = malloc(capacity);
    enum status status = out->bytes == NULL
                             ? STATUS_EXHAUSTED
                             : config_file_read(path, out->bytes, capacity, &out->size);
    if (status != STATUS_OK) {
        snprintf(error, dialect_error_size, "%.300s: %s", path,
                 status == STATUS_IO ? strerrordesc_np(errno) : status_text(status));
    }
    return status;
}

static enum status read_in(const char *directory, const char *name, size_t capacity,
                           struct file *out, char error[dialect_error_size])
{
    char path[path_size + 64];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return dialects_read_file(path, capacity, out, error);
}

// A missing file is not an error.
static enum status read_optional(const char *directory, const char *name, size_t capacity,
                                 struct file *out, char error[dialect_error_size])
{
    enum status status = read_in(directory, name, capacity, out, error);
    return status == STATUS_IO && errno == ENOENT ? STATUS_OK : status;
}

static struct slice slice_of_file(const struct file *file)
{
    return slice_of(file->bytes, file->size);
}

// Where the other files are: the directory itself, or that of the file of ranks.
static void directory_of(const struct config_tokenizer *row, char directory[path_size])
{
    snprintf(directory, path_size, "%s", row->path);
    char *slash = row->pattern != NULL ? strrchr(directory, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
    } else if (row->pattern != NULL) {
        snprintf(directory, path_size, ".");
    }
}

enum status dialects_load(const struct config_tokenizer *row, struct dialect **out,
                          char error[dialect_error_size])
{
    struct file tokenizer = {0};
    struct file config = {0};
    struct file template = {0};
    char directory[path_size];

    directory_of(row, directory);
    enum status status =
        row->pattern != NULL
            ? dialects_read_file(row->path, tokenizer_size_max, &tokenizer, error)
            : read_in(directory, "tokenizer.json", tokenizer_size_max, &tokenizer, error);

    if (status == STATUS_OK) {
        status = read_optional(directory, "tokenizer_config.json", config_size_max, &config, error);
    }
    if (status == STATUS_OK) {
        status = row->chat_template != NULL
                     ? dialects_read_file(row->chat_template, template_size_max, &template, error)
                     : read_optional(directory, "chat_template.jinja", template_size_max, &template,
                                     error);
    }
    if (status == STATUS_OK) {
        status = dialect_create(
            &(struct dialect_options){
                .name = row->path,
                .pattern = row->pattern,
                .models = row->models.items,
                .model_count = row->models.count,
                .engine = (enum dialect_engine)row->engine,
                .content = (enum dialect_content)row->content_format,
                .tokenizer = slice_of_file(&tokenizer),
                .config = slice_of_file(&config),
                .template = slice_of_file(&template),
                .kwargs = row->template_kwargs != NULL ? slice_str(row->template_kwargs)
                                                       : (struct slice){0},
                .utc_offset_s = row->utc_offset,
                .is_trusted = row->trust,
                .forwards_ids = row->forward_ids,
            },
            out, error);
    }
    free(tokenizer.bytes);
    free(config.bytes);
    free(template.bytes);
    return status;
}

static enum status load_all(const struct config *config, struct dialect_set *set)
{
    char error[dialect_error_size];

    for (uint32_t i = 0; i < config->tokenizer_count; i++) {
        const struct config_tokenizer *row = &config->tokenizers[i];
        ASSERT(set->count < dialect_max); // options.def allows no more
        struct dialect **slot = &set->dialects[set->count];
        uint64_t begun_ns = clock_monotonic_ns();
        enum status status = dialects_load(row, slot, error);
        if (status == STATUS_MALFORMED || status == STATUS_TOO_LARGE) {
            log_warn("tokenizer %s is refused, its models are routed by text: %s", row->path,
                     error);
            continue;
        }
        if (status != STATUS_OK) {
            fprintf(stderr, "warmpath: tokenizer %s: %s\n", row->path, error);
            return status;
        }
        const struct dialect *dialect = *slot;
        log_info("tokenizer %s: %u tokens, %.0f MB, loaded in %.0f ms", row->path,
                 tokenizer_id_count(dialect->tokenizer),
                 (double)tokenizer_memory(dialect->tokenizer) / 1e6,
                 (double)(clock_monotonic_ns() - begun_ns) / 1e6);
        if (dialect->chat_error[0] != '\0') {
            log_warn("tokenizer %s: %s; chats are routed by text", row->path, dialect->chat_error);
        }
        set->count++;
    }
    return STATUS_OK;
}

enum status dialects_open(const struct config *config, uint32_t thread_count,
                          struct dialect_set **out)
{
    *out = NULL;
    if (config->tokenizer_count == 0) {
        return STATUS_OK;
    }
    struct dialect_set *set = calloc(1, sizeof(*set));
    ASSERT(set != NULL);
    enum status status = load_all(config, set);
    if (status == STATUS_OK && set->count > 0) {
        set->memo = memo_create(&(struct memo_options){
            .memory = config->tokens.memo,
            .thread_count = thread_count,
            .secret = {{clock_entropy(), clock_entropy()}},
        });
        status = set->memo == NULL ? STATUS_EXHAUSTED : STATUS_OK;
        if (status != STATUS_OK) {
            fprintf(stderr, "warmpath: out of memory for tokens.memo\n");
        }
    }
    if (status != STATUS_OK || set->count == 0) {
        dialects_close(&set);
    }
    *out = set;
    return status;
}

void dialects_close(struct dialect_set **set_ptr)
{
    struct dialect_set *set = *set_ptr;
    *set_ptr = NULL;

    if (set == NULL) {
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        dialect_destroy(&set->dialects[i]);
    }
    memo_destroy(&set->memo);
    free(set);
}
