// SPDX-License-Identifier: Apache-2.0

#include "feed/engine_metrics.h"

#include "base/base.h"
#include "json/json.h"

#include <stdlib.h>

enum {
    // The longest that a double is written, and some.
    number_size_max = 63,
};

// Above it a count is nonsense, and sums of some thousand such values still are exact enough.
static const double value_max = 1e15;

enum field {
    FIELD_RUNNING, // added up over series, as all that have no other word
    FIELD_WAITING,
    FIELD_USAGE,        // the mean
    FIELD_CACHE_TOKENS, // of the whole cache
    FIELD_BLOCK_TOKENS, // the first
    FIELD_BLOCKS,
    FIELD_BLOCKS_USED,
    FIELD_CONFIG, // block size and blocks are labels, the value says nothing
};

// `label` is what tells the series of one name apart.  Of FIELD_CONFIG, it is the one with the block
// size, and `word` the one with the number of blocks, of which `spare` hold nothing.
struct row {
    const char *name;
    size_t size;
    enum field field;
    uint32_t spare;
    const char *label;
    const char *word;
};

#define NAME(text) .name = (text), .size = sizeof(text) - 1

// Every name that is known.  Of several names for one field that a page has, the first here counts:
// vLLM 0.9.2 to 0.10 says both of its names for the use of the cache.  A colon and an underscore are the
// same, so what an exporter has rewritten is found.  The last two groups are members of JSON objects.
static const struct row rows[] = {
    {NAME("vllm:num_requests_running"), FIELD_RUNNING},
    {NAME("vllm:num_requests_waiting"), FIELD_WAITING},
    {NAME("vllm:kv_cache_usage_perc"), FIELD_USAGE},
    {NAME("vllm:gpu_cache_usage_perc"), FIELD_USAGE},
    // Block 0 stands for "no block" and is never used.
    {NAME("vllm:cache_config_info"), FIELD_CONFIG, 1, "block_size", "num_gpu_blocks"},

    {NAME("sglang:num_running_reqs"), FIELD_RUNNING},
    {NAME("sglang:num_queue_reqs"), FIELD_WAITING},
    {NAME("sglang:token_usage"), FIELD_USAGE},
    {NAME("sglang:max_total_num_tokens"), FIELD_CACHE_TOKENS},
    {NAME("sglang:page_size"), FIELD_BLOCK_TOKENS},
    {NAME("sglang:num_pages"), FIELD_BLOCKS},
    {NAME("sglang:cache_config_info"), FIELD_CONFIG, 0, "page_size", "num_pages"},

    {NAME("trtllm_num_requests_running"), FIELD_RUNNING},
    {NAME("trtllm_num_requests_waiting"), FIELD_WAITING},
    {NAME("trtllm_kv_cache_utilization"), FIELD_USAGE},
    {NAME("trtllm_kv_cache_tokens_per_block"), FIELD_BLOCK_TOKENS},
    {NAME("trtllm_kv_cache_max_blocks"), FIELD_BLOCKS},
    {NAME("trtllm_kv_cache_used_blocks"), FIELD_BLOCKS_USED},
    {NAME("num_requests_running"), FIELD_RUNNING}, // before there was a prefix
    {NAME("num_requests_waiting"), FIELD_WAITING},
    {NAME("kv_cache_utilization"), FIELD_USAGE},
    {NAME("kv_cache_tokens_per_block"), FIELD_BLOCK_TOKENS},
    {NAME("kv_cache_max_blocks"), FIELD_BLOCKS},

    {NAME("nv_trt_llm_request_metrics"), FIELD_RUNNING, 0, "request_type", "scheduled"},
    {NAME("nv_trt_llm_request_metrics"), FIELD_WAITING, 0, "request_type", "waiting"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_USAGE, 0, "kv_cache_block_type", "fraction"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_BLOCK_TOKENS, 0, "kv_cache_block_type",
     "tokens_per"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_BLOCKS, 0, "kv_cache_block_type", "max"},
    {NAME("nv_trt_llm_kv_cache_block_metrics"), FIELD_BLOCKS_USED, 0, "kv_cache_block_type",
     "used"},
    {NAME("nv_inference_pending_request_count"), FIELD_WAITING},

    {NAME("llamacpp:requests_processing"), FIELD_RUNNING},
    {NAME("llamacpp:requests_deferred"), FIELD_WAITING},
    {NAME("llamacpp:kv_cache_usage_ratio"), FIELD_USAGE},

    // TensorRT-LLM, GET /metrics.
    {NAME("numActiveRequests"), FIELD_RUNNING},
    {NAME("numQueuedRequests"), FIELD_WAITING},
    {NAME("tokensPerBlock"), FIELD_BLOCK_TOKENS},
    {NAME("maxNumBlocks"), FIELD_BLOCKS},
    {NAME("usedNumBlocks"), FIELD_BLOCKS_USED},

    // SGLang, GET /v1/loads.
    {NAME("num_running_reqs"), FIELD_RUNNING},
    {NAME("num_waiting_reqs"), FIELD_WAITING},
    {NAME("token_usage"), FIELD_USAGE},
    {NAME("max_total_num_tokens"), FIELD_CACHE_TOKENS},
};

// What was read for each row.
struct tally {
    double sum;
    double block_tokens; // of the first that has it; 0: none
    uint32_t count;
};

struct reader {
    uint64_t sizes; // bit n: some name is n bytes long, which most lines do not get past
    struct tally tallies[ARRAY_COUNT(rows)];
};

// Where in a line.
struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static void skip_blanks(struct cursor *line)
{
    while (line->at < line->end && is_blank(*line->at)) {
        line->at++;
    }
}

static bool take_byte(struct cursor *line, uint8_t byte)
{
    skip_blanks(line);
    if (line->at == line->end || *line->at != byte) {
        return false;
    }
    line->at++;
    return true;
}

static bool ends_word(uint8_t byte)
{
    return is_blank(byte) || byte == '{' || byte == '}' || byte == '=' || byte == ',' ||
           byte == '"';
}

// May be empty.
static struct slice take_word(struct cursor *line)
{
    skip_blanks(line);
    const uint8_t *start = line->at;
    const uint8_t *at = start;
    while (at < line->end && !ends_word(*at)) {
        at++;
    }
    line->at = at;
    return slice_of(start, (size_t)(at - start));
}

// False for what is no plain number of a useful size: NaN and the infinities say nothing, and what
// is below zero would mean "not said".
static bool read_number(struct slice text, double *out)
{
    char copy[number_size_max + 1];
    char *end = NULL;

    if (text.size == 0 || text.size > number_size_max) {
        return false;
    }
    // strtod also takes names of infinity and hexadecimal digits, which nobody writes here.
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '\0' || strchr("0123456789+-.eE", text.bytes[i]) == NULL) {
            return false;
        }
    }
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    double value = strtod(copy, &end);
    if (end != copy + text.size || !(value >= 0 && value <= value_max)) {
        return false;
    }
    *out = value;
    return true;
}

static bool is_name(const struct row *row, struct slice name)
{
    if (row->size != name.size) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        uint8_t byte = name.bytes[i];
        if (byte != (uint8_t)row->name[i] && !(byte == '_' && row->name[i] == ':') &&
            !(byte == ':' && row->name[i] == '_')) {
            return false;
        }
    }
    return true;
}

// The index of the first row of that name from `from` on; as many as there are rows when there is
// none.
static uint32_t find_row(struct slice name, uint32_t from)
{
    while (from < ARRAY_COUNT(rows) && !is_name(&rows[from], name)) {
        from++;
    }
    return from;
}

// The name without what others put around it: Ray in front, a counter's suffix behind.
static struct slice bare_name(struct slice name)
{
    static const char suffix[] = "_total";
    size_t suffix_size = sizeof(suffix) - 1;

    if (slice_starts_with(name, "ray_")) {
        name = slice_of(name.bytes + 4, name.size - 4);
    }
    if (name.size > suffix_size &&
        memcmp(name.bytes + name.size - suffix_size, suffix, suffix_size) == 0) {
        name.size -= suffix_size;
    }
    return name;
}

// Moves behind one `name="value"` and the comma after it.  The value stays as it is escaped.  False
// when there is none.
static bool take_label(struct cursor *line, struct slice *name, struct slice *value)
{
    *name = take_word(line);
    if (name->size == 0 || !take_byte(line, '=') || !take_byte(line, '"')) {
        return false;
    }
    const uint8_t *start = line->at;
    while (line->at < line->end && *line->at != '"') {
        line->at += *line->at == '\\' && line->end - line->at > 1 ? 2 : 1;
    }
    *value = slice_of(start, (size_t)(line->at - start));
    if (!take_byte(line, '"')) {
        return false;
    }
    (void)take_byte(line, ',');
    return true;
}

// From behind the opening brace to behind the closing one.
static bool skip_labels(struct cursor *line)
{
    struct slice name;
    struct slice value;
    while (take_label(line, &name, &value)) {
    }
    return name.size == 0 && take_byte(line, '}');
}

// Empty when there is no such label.
static struct slice find_label(struct cursor labels, const char *wanted)
{
    struct slice name;
    struct slice value;
    while (take_label(&labels, &name, &value)) {
        if (slice_is(name, wanted)) {
            return value;
        }
    }
    return (struct slice){0};
}

static void tally_add(struct reader *reader, uint32_t row, double value)
{
    struct tally *tally = &reader->tallies[row];
    if (rows[row].field == FIELD_BLOCK_TOKENS && tally->block_tokens == 0) {
        tally->block_tokens = value;
    }
    tally->sum += value;
    tally->count++;
}

static void tally_config(struct reader *reader, uint32_t row, struct cursor labels)
{
    struct tally *tally = &reader->tallies[row];
    double block_tokens = 0;
    double blocks = 0;

    if (!read_number(find_label(labels, rows[row].label), &block_tokens) || block_tokens == 0) {
        return;
    }
    if (tally->block_tokens == 0) {
        tally->block_tokens = block_tokens;
    }
    // "None" until the engine has measured how many fit.
    if (read_number(find_label(labels, rows[row].word), &blocks) && blocks > rows[row].spare) {
        tally->sum += block_tokens * (blocks - rows[row].spare);
        tally->count++;
    }
}

static bool is_of_row(const struct row *row, struct cursor labels)
{
    if (row->label == NULL) {
        // SGLang's count of each priority comes beside that of all, which has an empty one.
        return find_label(labels, "priority").size == 0;
    }
    return slice_is(find_label(labels, row->label), row->word);
}

static void read_series(struct reader *reader, struct slice name, struct cursor *line)
{
    bool may_match = name.size < 64 && (reader->sizes >> name.size & 1) != 0;
    uint32_t row = may_match ? find_row(name, 0) : ARRAY_COUNT(rows);
    struct cursor labels = {.at = line->at, .end = line->at};
    double value = 0;

    if (row == ARRAY_COUNT(rows)) {
        return;
    }
    if (take_byte(line, '{')) {
        labels = *line;
        if (!skip_labels(line)) {
            return;
        }
        labels.end = line->at;
    }
    bool has_value = read_number(take_word(line), &value); // a time may follow
    for (; row < ARRAY_COUNT(rows); row = find_row(name, row + 1)) {
        if (rows[row].field == FIELD_CONFIG) {
            tally_config(reader, row, labels);
        } else if (has_value && is_of_row(&rows[row], labels)) {
            tally_add(reader, row, value);
        }
    }
}

static void read_text(struct reader *reader, struct slice page)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        reader->sizes |= (uint64_t)1 << rows[i].size;
    }
    const uint8_t *end = page.bytes + page.size;
    const uint8_t *next = page.bytes;

    while (next < end) {
        struct cursor line = {.at = next, .end = end};
        const uint8_t *newline = memchr(next, '\n', (size_t)(end - next));
        if (newline != NULL) {
            line.end = newline;
        }
        next = newline != NULL ? newline + 1 : end;
        skip_blanks(&line);
        if (line.at < line.end && *line.at != '#') {
            struct slice name = take_word(&line);
            read_series(reader, bare_name(name), &line);
        }
    }
}

static void read_member(struct reader *reader, const struct json_item *item)
{
    uint32_t row = find_row(item->key, 0);
    double value = 0;

    if (row < ARRAY_COUNT(rows) && rows[row].label == NULL && item->value.kind == JSON_NUMBER &&
        read_number(item->value.raw, &value)) {
        tally_add(reader, row, value);
    }
}

// The object is well-formed.
static void read_object(struct reader *reader, struct slice object)
{
    struct json json = json_open(object);
    struct json_item item;

    if (!json_next(&json, &item)) {
        return;
    }
    json_enter(&json);
    while (json_next(&json, &item)) {
        read_member(reader, &item);
        if (item.value.kind == JSON_OBJECT && json_string_is(item.key, "kvCacheStats")) {
            json_enter(&json);
            while (json_next(&json, &item)) {
                read_member(reader, &item);
            }
        }
    }
}

// Every object of an array, or the last alone.
static void read_elements(struct reader *reader, struct slice array, bool last_alone)
{
    struct json json = json_open(array);
    struct json_item item;
    struct slice last = {0};

    if (!json_next(&json, &item)) {
        return;
    }
    json_enter(&json);
    while (json_next(&json, &item)) {
        if (item.value.kind != JSON_OBJECT || !json_skip(&json, &item.value)) {
            continue;
        }
        last = item.value.raw;
        if (!last_alone) {
            read_object(reader, last);
        }
    }
    if (last_alone && last.size > 0) {
        read_object(reader, last);
    }
}

// One object, or a list of what one engine did step by step, or {"loads": one for each rank}.
static void read_json(struct reader *reader, struct slice page)
{
    static const char *const names[] = {"loads"};
    struct json_value loads[1] = {0};

    if (json_find(page, names, 1, loads) != STATUS_OK) { // which reads all of it
        return;
    }
    if (loads[0].kind == JSON_ARRAY) {
        read_elements(reader, loads[0].raw, false);
        return;
    }
    struct json json = json_open(page);
    struct json_item item;
    if (json_next(&json, &item) && json_skip(&json, &item.value)) {
        if (item.value.kind == JSON_ARRAY) {
            read_elements(reader, item.value.raw, true);
        } else {
            read_object(reader, item.value.raw);
        }
    }
}

// Of the names that were found for a field, the first; NULL when there is none.
static const struct tally *first_of(const struct reader *reader, enum field field)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].field == field && reader->tallies[i].count > 0) {
            return &reader->tallies[i];
        }
    }
    return NULL;
}

static double sum_of(const struct reader *reader, enum field field)
{
    const struct tally *tally = first_of(reader, field);
    return tally == NULL ? -1 : tally->sum;
}

static double usage_of(const struct reader *reader, double blocks)
{
    const struct tally *usage = first_of(reader, FIELD_USAGE);
    double used = sum_of(reader, FIELD_BLOCKS_USED);
    double mean = -1;

    if (usage != NULL) {
        mean = usage->sum / usage->count;
    } else if (used >= 0 && blocks > 0) {
        mean = used / blocks;
    }
    return mean > 1 ? 1 : mean;
}

static double block_tokens_of(const struct reader *reader)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (reader->tallies[i].block_tokens > 0) {
            return reader->tallies[i].block_tokens;
        }
    }
    return -1;
}

static double cache_tokens_of(const struct reader *reader, double blocks, double block_tokens)
{
    double tokens = sum_of(reader, FIELD_CACHE_TOKENS);
    if (tokens < 0) {
        tokens = sum_of(reader, FIELD_CONFIG);
    }
    if (tokens < 0 && blocks >= 0 && block_tokens > 0) {
        tokens = blocks * block_tokens;
    }
    // A cache of no size is one that nobody has measured yet.
    return tokens > 0 && tokens <= value_max ? tokens : -1;
}

void engine_metrics_read(struct slice page, struct load_report *out)
{
    struct reader reader = {0};
    page = page.size > 0 ? page : slice_str("");
    struct cursor start = {.at = page.bytes, .end = page.bytes + page.size};
    while (start.at < start.end && (is_blank(*start.at) || *start.at == '\n')) {
        start.at++;
    }
    if (start.at < start.end && (*start.at == '[' || *start.at == '{')) {
        read_json(&reader, page);
    } else {
        read_text(&reader, page);
    }
    double blocks = sum_of(&reader, FIELD_BLOCKS);
    double block_tokens = block_tokens_of(&reader);
    *out = (struct load_report){
        .running = (float)sum_of(&reader, FIELD_RUNNING),
        .waiting = (float)sum_of(&reader, FIELD_WAITING),
        .kv_usage = (float)usage_of(&reader, blocks),
        .cache_tokens = cache_tokens_of(&reader, blocks, block_tokens),
        .block_tokens = block_tokens,
    };
}
