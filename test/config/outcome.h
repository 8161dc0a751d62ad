// SPDX-License-Identifier: Apache-2.0
//
// outcome.h -- a configuration in one line of test: "ok", or the message it is refused with.
#pragma once

#include "base/text.h"
#include "config/config.h"
#include "test.h"

// The configuration of the last accepted text; lives until the next one.
static struct config *config;
static char outcome_text[1024];

// Stands in for the disk: a path is "/secret/<its content>".
static enum status read_secret_path(const char *path, void *bytes, size_t capacity, size_t *size)
{
    ASSERT(strncmp(path, "/secret/", 8) == 0);
    *size = strlen(path + 8);
    ASSERT(*size < capacity);
    memcpy(bytes, path + 8, *size);
    return STATUS_OK;
}

static const char *outcome_of(const struct config_source *source, struct slice yaml,
                              const char *file)
{
    struct config_error error;

    config_destroy(&config);
    if (config_parse(yaml, file, source, &config, &error) == STATUS_OK) {
        return "ok";
    }
    ASSERT(config == NULL);
    struct text text = text_over(outcome_text, sizeof(outcome_text) - 1);
    config_error_write(&error, &text);
    outcome_text[text.size] = '\0';
    return outcome_text;
}

// Of a file called "f".
__attribute__((unused)) static const char *outcome(const char *yaml)
{
    struct config_source source = {.read = read_secret_path};
    return outcome_of(&source, slice_str(yaml), "f");
}

// Of a file and flags: names and values by turns, then NULL.
__attribute__((unused)) static const char *outcome_with(const char *yaml, const char *const *flags)
{
    struct config_source source = {.values = flags, .read = read_secret_path};
    while (flags[2 * (size_t)source.value_count] != NULL) {
        source.value_count++;
    }
    return outcome_of(&source, slice_str(yaml), "f");
}

#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})
