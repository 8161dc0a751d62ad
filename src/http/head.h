// SPDX-License-Identifier: Apache-2.0
//
// head.h -- the head of an HTTP/1.x message: the first line and the fields, found and checked.
//
// Bytes are fed as they arrive, in any portions; nothing is copied: what is found is remembered as
// offsets from the first byte of the head, so the memory may move between two feeds as long as the
// bytes stay contiguous.  llhttp reads the grammar; what it lets through and a proxy must not is
// refused here: folded fields, blanks before a colon, a missing or repeated Host, transfer codings
// other than exactly `chunked`, control characters, targets of another form than the method allows.
//
// A head that passed is safe to forward: two readers of its bytes see the same message.
//
// Threads: one owner.  Memory: a plain struct of fixed size.
#pragma once

#include "base/slice.h"
#include "base/status.h"

enum http_name {
    HTTP_NAME_OTHER,
#define NAME(id, text, hop) HTTP_NAME_##id,
#include "http/names.def"
#undef NAME
};

struct http_field {
    uint32_t name_at;
    uint32_t value_at;
    uint32_t value_size;
    uint16_t name_size;
    uint8_t name; // enum http_name
};

enum { http_field_count_max = 128, http_parser_size = 128 };

enum http_kind { HTTP_KIND_REQUEST, HTTP_KIND_RESPONSE };

enum http_framing {
    HTTP_NO_BODY,
    HTTP_LENGTH,      // content_length bytes, perhaps none
    HTTP_CHUNKED,     // until the last chunk
    HTTP_UNTIL_CLOSE, // responses only
};

struct http_limits {
    uint32_t head_size;
    uint32_t target_size;
};

struct http_head {
    enum http_kind kind;
    uint32_t size; // of the whole head, the empty line included; 0 until complete
    uint32_t field_count;
    bool is_http10;
    bool keep_alive;   // by the version and Connection
    bool expects;      // Expect: 100-continue
    bool names_fields; // Connection names fields that are hop-by-hop too
    bool target_is_long;
    enum http_framing framing;
    uint64_t content_length;

    uint32_t method_size; // at offset method_at
    uint32_t method_at;
    uint32_t target_at; // origin form: absolute requests have their scheme and authority cut off
    uint32_t target_size;

    uint16_t status;
    uint32_t reason_at;
    uint32_t reason_size;

    const char *why; // after MALFORMED: the reason, for the error message

    struct http_limits limits;
    const uint8_t *bytes; // where the head was at the last feed
    uint32_t fed;
    uint8_t span; // the element that the parser was last inside of
    _Alignas(8) uint8_t parser[http_parser_size];
    struct http_field fields[http_field_count_max];
};

void http_head_start(struct http_head *head, enum http_kind kind, struct http_limits limits);

// `bytes` starts with the first byte of the head; what was fed before is not read again.  OK: the
// head is complete and head->size is set.  AGAIN: more is needed.  TOO_LARGE: target_is_long says
// of what.  MALFORMED: `why` says why.
enum status http_head_feed(struct http_head *head, struct slice bytes);

// For a response: whether one to this request method can have a body at all, and how it ends.
// Called once, after the head is complete.
void http_head_response_framing(struct http_head *head, bool to_head_request);

static inline struct slice http_head_at(const struct http_head *head, uint32_t at, uint32_t size)
{
    return slice_of(head->bytes + at, size);
}

static inline struct slice http_field_name(const struct http_head *head,
                                           const struct http_field *field)
{
    return http_head_at(head, field->name_at, field->name_size);
}

static inline struct slice http_field_value(const struct http_head *head,
                                            const struct http_field *field)
{
    return http_head_at(head, field->value_at, field->value_size);
}

static inline struct slice http_head_method(const struct http_head *head)
{
    return http_head_at(head, head->method_at, head->method_size);
}

static inline struct slice http_head_target(const struct http_head *head)
{
    return http_head_at(head, head->target_at, head->target_size);
}

// The target up to the question mark.
struct slice http_head_path(const struct http_head *head);

// The first field of that name, or NULL.
const struct http_field *http_head_find(const struct http_head *head, enum http_name name);
const struct http_field *http_head_find_text(const struct http_head *head, const char *name);

// Whether Content-Type begins with that media type; parameters may follow.
bool http_head_type_is(const struct http_head *head, const char *type);

// Whether a proxy has to leave this field out: by its name, or because Connection names it.
bool http_field_is_hop_by_hop(const struct http_head *head, const struct http_field *field);
