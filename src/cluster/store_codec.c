// SPDX-License-Identifier: Apache-2.0
//
// The check walks the bytes as hiredis will: a line, or a string of known size, or the head of an
// array.  It keeps only numbers, so that it can stop and go on anywhere.

#include "cluster/store_codec.h"

#include "base/base.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

enum {
    // hiredis gives its buffer back when it is empty and larger than this.
    idle_size_max = 64 << 10,
    line_end_size = 2,
};

// Where the check is within a reply.
struct store_scan {
    char line[store_line_size_max + 1];
    size_t line_size;  // bytes of `line` that have come
    size_t bulk_left;  // bytes of a string, with its line end, that have not come
    size_t reply_size; // of the current reply so far
    uint32_t node_count;
    uint32_t depth;
    uint64_t left[store_depth_max]; // elements that have not come, of each open array
};

struct store_codec {
    struct store_codec_bounds bounds;
    redisReader *reader;
    struct store_scan scan;
};

enum status store_codec_create(const struct store_codec_bounds *bounds, struct store_codec **out)
{
    ASSERT(bounds->bulk_size_max <= bounds->reply_size_max);
    ASSERT(bounds->reply_size_max < INT32_MAX && bounds->node_count_max > 0);

    struct store_codec *codec = calloc(1, sizeof(*codec));
    if (codec == NULL) {
        return STATUS_EXHAUSTED;
    }
    codec->bounds = *bounds;
    codec->reader = redisReaderCreate();
    if (codec->reader == NULL) {
        free(codec);
        return STATUS_EXHAUSTED;
    }
    codec->reader->maxbuf = idle_size_max;
    *out = codec;
    return STATUS_OK;
}

void store_codec_destroy(struct store_codec **codec_ptr)
{
    struct store_codec *codec = *codec_ptr;
    *codec_ptr = NULL;

    if (codec != NULL) {
        redisReaderFree(codec->reader);
        free(codec);
    }
}

// A node is complete: so may be the arrays that it ends, and with them the reply.
static void scan_end_node(struct store_scan *scan)
{
    while (scan->depth > 0) {
        scan->left[scan->depth - 1]--;
        if (scan->left[scan->depth - 1] > 0) {
            return;
        }
        scan->depth--;
    }
    scan->reply_size = 0;
    scan->node_count = 0;
}

// The length of a string or an array; -1 is nil.
static bool scan_read_length(struct slice digits, uint64_t *length, bool *is_nil)
{
    *is_nil = slice_is(digits, "-1");
    // A leading zero is refused by hiredis too.
    bool is_padded = digits.size > 1 && digits.bytes[0] == '0';
    return *is_nil || (!is_padded && slice_parse_u64(digits, length));
}

static enum status scan_begin_bulk(struct store_codec *codec, struct slice digits)
{
    struct store_scan *scan = &codec->scan;
    uint64_t length = 0;
    bool is_nil = false;

    if (!scan_read_length(digits, &length, &is_nil)) {
        return STATUS_MALFORMED;
    }
    if (is_nil) {
        scan_end_node(scan);
        return STATUS_OK;
    }
    if (length > codec->bounds.bulk_size_max ||
        length > codec->bounds.reply_size_max - scan->reply_size) {
        return STATUS_TOO_LARGE;
    }
    scan->bulk_left = length + line_end_size;
    return STATUS_OK;
}

static enum status scan_begin_array(struct store_codec *codec, struct slice digits)
{
    struct store_scan *scan = &codec->scan;
    uint64_t length = 0;
    bool is_nil = false;

    if (!scan_read_length(digits, &length, &is_nil)) {
        return STATUS_MALFORMED;
    }
    if (is_nil || length == 0) {
        scan_end_node(scan);
        return STATUS_OK;
    }
    if (length > codec->bounds.node_count_max - scan->node_count ||
        scan->depth == store_depth_max) {
        return STATUS_TOO_LARGE;
    }
    scan->left[scan->depth++] = length;
    return STATUS_OK;
}

// The line without its end is whole.
static enum status scan_line(struct store_codec *codec)
{
    struct store_scan *scan = &codec->scan;
    struct slice line = slice_of(scan->line, scan->line_size - line_end_size);

    scan->line_size = 0;
    if (line.size == 0) {
        return STATUS_MALFORMED;
    }
    if (scan->node_count == codec->bounds.node_count_max) {
        return STATUS_TOO_LARGE;
    }
    scan->node_count++;
    struct slice rest = slice_of(line.bytes + 1, line.size - 1);
    switch (line.bytes[0]) {
    case '+':
    case '-':
    case ':':
        scan_end_node(scan);
        return STATUS_OK;
    case '$':
        return scan_begin_bulk(codec, rest);
    case '*':
        return scan_begin_array(codec, rest);
    default:
        return STATUS_MALFORMED;
    }
}

static enum status scan_line_byte(struct store_codec *codec, uint8_t byte)
{
    struct store_scan *scan = &codec->scan;

    if (scan->line_size == store_line_size_max) {
        return STATUS_TOO_LARGE;
    }
    scan->line[scan->line_size++] = (char)byte;
    if (byte == '\n' && scan->line_size >= line_end_size &&
        scan->line[scan->line_size - line_end_size] == '\r') {
        return scan_line(codec);
    }
    return STATUS_OK;
}

static enum status scan_bytes(struct store_codec *codec, struct slice bytes)
{
    struct store_scan *scan = &codec->scan;
    enum status status = STATUS_OK;

    for (size_t at = 0; at < bytes.size && status == STATUS_OK;) {
        size_t step = 1;
        if (scan->bulk_left > 0) {
            size_t rest = bytes.size - at;
            step = scan->bulk_left < rest ? scan->bulk_left : rest;
        }
        scan->reply_size += step;
        if (scan->reply_size > codec->bounds.reply_size_max) {
            return STATUS_TOO_LARGE;
        }
        if (scan->bulk_left > 0) {
            scan->bulk_left -= step;
            if (scan->bulk_left == 0) {
                scan_end_node(scan);
            }
        } else {
            status = scan_line_byte(codec, bytes.bytes[at]);
        }
        at += step;
    }
    return status;
}

static enum status reader_status(const redisReader *reader)
{
    return reader->err == REDIS_ERR_OOM ? STATUS_EXHAUSTED : STATUS_MALFORMED;
}

enum status store_codec_feed(struct store_codec *codec, struct slice bytes)
{
    enum status status = scan_bytes(codec, bytes);
    if (status != STATUS_OK) {
        return status;
    }
    if (redisReaderFeed(codec->reader, (const char *)bytes.bytes, bytes.size) != REDIS_OK) {
        return reader_status(codec->reader);
    }
    return STATUS_OK;
}

enum status store_codec_next(struct store_codec *codec, struct store_reply **out)
{
    void *reply = NULL;

    if (redisReaderGetReply(codec->reader, &reply) != REDIS_OK) {
        return reader_status(codec->reader);
    }
    if (reply == NULL) {
        return STATUS_AGAIN;
    }
    *out = reply;
    return STATUS_OK;
}

void store_reply_free(struct store_reply **reply)
{
    if (*reply != NULL) {
        freeReplyObject(*reply);
        *reply = NULL;
    }
}

static const redisReply *reply_of(const struct store_reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

enum store_reply_kind store_reply_kind(const struct store_reply *reply)
{
    switch (reply_of(reply)->type) {
    case REDIS_REPLY_STRING:
        return STORE_REPLY_STRING;
    case REDIS_REPLY_STATUS:
        return STORE_REPLY_STATUS;
    case REDIS_REPLY_INTEGER:
        return STORE_REPLY_NUMBER;
    case REDIS_REPLY_ARRAY:
        return STORE_REPLY_ARRAY;
    case REDIS_REPLY_ERROR:
        return STORE_REPLY_ERROR;
    default:
        return STORE_REPLY_NIL;
    }
}

struct slice store_reply_text(const struct store_reply *reply)
{
    const redisReply *node = reply_of(reply);
    bool has_text = node->type == REDIS_REPLY_STRING || node->type == REDIS_REPLY_STATUS ||
                    node->type == REDIS_REPLY_ERROR;
    return has_text ? slice_of(node->str, node->len) : (struct slice){0};
}

int64_t store_reply_number(const struct store_reply *reply)
{
    const redisReply *node = reply_of(reply);
    return node->type == REDIS_REPLY_INTEGER ? node->integer : 0;
}

uint32_t store_reply_count(const struct store_reply *reply)
{
    const redisReply *node = reply_of(reply);
    return node->type == REDIS_REPLY_ARRAY ? (uint32_t)node->elements : 0;
}

const struct store_reply *store_reply_at(const struct store_reply *reply, uint32_t at)
{
    ASSERT(at < store_reply_count(reply));
    return (const struct store_reply *)(const void *)reply_of(reply)->element[at];
}

enum status store_codec_write(const struct slice *words, uint32_t word_count, struct text *out)
{
    const char *starts[store_word_count_max];
    size_t sizes[store_word_count_max];
    char *command = NULL;

    ASSERT(word_count > 0 && word_count <= store_word_count_max);
    for (uint32_t i = 0; i < word_count; i++) {
        // hiredis copies from the pointer even if the word is empty.
        starts[i] = words[i].size > 0 ? (const char *)words[i].bytes : "";
        sizes[i] = words[i].size;
    }
    int size = redisFormatCommandArgv(&command, (int)word_count, starts, sizes);
    if (size < 0) {
        return STATUS_EXHAUSTED;
    }
    text_add(out, slice_of(command, (size_t)size));
    redisFreeCommand(command);
    return STATUS_OK;
}
