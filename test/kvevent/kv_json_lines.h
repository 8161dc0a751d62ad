// SPDX-License-Identifier: Apache-2.0
//
// kv_json_lines.h -- the notices of a document, written line by line.  Documents have ' for ", to
// be read more easily.
#pragma once

#include "base/text.h"
#include "kvevent/kv_json.h"
#include "test.h"

#include <stdlib.h>

static struct kv_json *reader;

static inline void add_notice(const struct kv_notice *notice, struct text *out)
{
    static const char *const kinds[] = {"stored", "removed", "cleared", "unknown", "malformed"};
    static const char *const tiers[] = {"gpu", "host", "disk"};

    text_add_str(out, kinds[notice->kind]);
    if (notice->kind == KV_NOTICE_STORED || notice->kind == KV_NOTICE_REMOVED) {
        text_add_format(out, " %s", tiers[notice->tier]);
        for (uint32_t i = 0; i < notice->hash_count; i++) {
            text_add_format(out, "%s%lx", i == 0 ? " " : ",", (unsigned long)notice->hashes[i]);
        }
    }
    if (notice->has_parent) {
        text_add_format(out, " behind %lx", (unsigned long)notice->parent);
    }
    for (uint32_t i = 0; i < notice->token_count; i++) {
        text_add_format(out, "%s%u", i == 0 ? " tokens " : ",", notice->tokens[i]);
    }
    if (notice->block_tokens > 0) {
        text_add_format(out, " by %u", notice->block_tokens);
    }
    if (notice->adapter.size > 0) {
        text_add_str(out, " adapter ");
        text_add(out, notice->adapter);
    }
    if (notice->salt.size > 0) {
        text_add_str(out, " salt ");
        text_add(out, notice->salt);
    }
    if (notice->has_group) {
        text_add_format(out, " group %u%s", notice->group, notice->decides ? "" : " which is moot");
    }
    text_add_str(out, notice->kind == KV_NOTICE_STORED && !notice->is_plain ? " opaque" : "");
    text_add_str(out, notice->is_remote ? " remote" : "");
    struct kv_json_fault fault = kv_json_fault(reader);
    if (fault.what != NULL) {
        text_add_format(out, " at %ld: %s", (long)fault.event, fault.what);
    }
    text_add_str(out, "\n");
}

// In memory of its exact size, for sanitizers; good until the next.
static inline struct slice document_of(const char *quoted)
{
    static char *space;
    size_t size = strlen(quoted);

    free(space);
    space = malloc(size > 0 ? size : 1);
    ASSERT(space != NULL);
    for (size_t i = 0; i < size; i++) {
        space[i] = quoted[i];
        if (quoted[i] == '\'') {
            space[i] = '"';
        }
    }
    return slice_of(space, size);
}

static inline enum status begin(const char *quoted, const struct kv_json_owner *owner)
{
    kv_json_destroy(&reader);
    reader = kv_json_create();
    ASSERT(reader != NULL);
    return kv_json_begin(reader, document_of(quoted), owner);
}

// Every notice on a line; only the fault if it is not a document.
static inline const char *read_for(const char *quoted, const struct kv_json_owner *owner)
{
    static char space[16384];
    struct text out = text_over(space, sizeof(space) - 1);
    struct kv_notice notice;
    enum status status = begin(quoted, owner);

    if (status != STATUS_OK) {
        text_add_format(&out, "no: %s", kv_json_fault(reader).what);
    }
    while ((status = kv_json_next(reader, &notice)) == STATUS_OK) {
        add_notice(&notice, &out);
    }
    ASSERT(status == STATUS_CLOSED && !out.overflow);
    space[out.size] = '\0';
    return space;
}

static inline const char *read_all(const char *document)
{
    return read_for(document, NULL);
}
