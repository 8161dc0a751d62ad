// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_log.h"

#include "base/base.h"
#include "drive/drive_result.h"
#include "drive/drive_tally.h"
#include "json/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// A decision and a backend may need six bytes for each of theirs.
enum { line_size_max = 1024 + 6 * (drive_decision_size + drive_backend_size) };

struct drive_log {
    FILE *out;
    char line[line_size_max];
};

struct drive_log *drive_log_open(const char *path)
{
    struct drive_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return NULL;
    }
    log->out = fopen(path, "we");
    if (log->out == NULL) {
        free(log);
        return NULL;
    }
    return log;
}

static void log_put_time(struct json_writer *json, const char *name, uint64_t from_us,
                         uint64_t to_us)
{
    json_put_fixed(json, name, to_us == 0 ? NAN : ((double)to_us - (double)from_us) / 1000, 3);
}

static void log_put_count(struct json_writer *json, const char *name, bool is_known, uint64_t count)
{
    if (is_known) {
        json_put_u64(json, name, count);
    } else {
        json_put_null(json, name);
    }
}

static void log_put_words(struct json_writer *json, const char *name, const char *words)
{
    if (words[0] != '\0') {
        json_put_foreign(json, name, slice_str(words));
    } else {
        json_put_null(json, name);
    }
}

// Of "policy=warm; matched_tokens=384; cost=2".  False: it is not there.
static bool find_matched(const char *decision, uint64_t *out)
{
    static const char name[] = "; matched_tokens=";
    const char *at = strstr(decision, name);
    if (at == NULL) {
        return false;
    }
    *out = strtoull(at + sizeof(name) - 1, NULL, 10);
    return true;
}

void drive_log_add(struct drive_log *log, const struct drive_ending *ending)
{
    const struct drive_response *response = ending->response;
    const struct response_usage *usage = &response->usage;
    const struct work_item *item = ending->item;
    uint64_t due_us = ending->begin_us + item->due_us;
    uint64_t matched = 0;
    bool has_matched = find_matched(response->decision, &matched);
    struct text out = text_over(log->line, sizeof(log->line));

    struct json_writer json = json_writer_over(&out);

    json_begin_object(&json, NULL);
    json_put_u64(&json, "number", item->number);
    json_put_u64(&json, "session", item->session);
    log_put_time(&json, "due_ms", ending->begin_us, due_us);
    log_put_time(&json, "sent_ms", ending->begin_us, ending->sent_us);
    log_put_time(&json, "first_ms", due_us, response->first_us);
    log_put_time(&json, "last_ms", due_us, response->last_us);
    json_put_str(&json, "error",
                 response->error != DRIVE_FINE ? drive_error_name(response->error) : NULL);
    json_put_u64(&json, "status", response->status);
    log_put_count(&json, "prompt_tokens", usage->has_prompt_tokens, usage->prompt_tokens);
    log_put_count(&json, "cached_tokens", usage->has_cached_tokens, usage->cached_tokens);
    log_put_count(&json, "output_tokens", usage->has_prompt_tokens, usage->completion_tokens);
    json_put_bool(&json, "counts", ending->counts);
    log_put_words(&json, "backend", response->backend);
    log_put_count(&json, "predicted_tokens", has_matched, matched);
    log_put_words(&json, "decision", response->decision);
    json_end(&json);
    text_add_str(&out, "\n");
    ASSERT(!out.overflow);
    fwrite(log->line, 1, out.size, log->out); // drive_log_close reports errors
}

bool drive_log_close(struct drive_log **log_ptr)
{
    struct drive_log *log = *log_ptr;
    *log_ptr = NULL;

    if (log == NULL) {
        return true;
    }
    bool is_written = !ferror(log->out);
    is_written &= fclose(log->out) == 0;
    free(log);
    return is_written;
}
