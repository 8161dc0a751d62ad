// SPDX-License-Identifier: Apache-2.0

#include "http/head.h"

#include "base/base.h"
#include "base/text.h"

#include <llhttp.h>

_Static_assert(sizeof(llhttp_t) <= http_parser_size, "room for the parser");

// The element to which the parser's last bytes belong.
enum { SPAN_NONE, SPAN_METHOD, SPAN_TARGET, SPAN_NAME, SPAN_VALUE, SPAN_REASON };

static const struct {
    const char *text;
    uint8_t size;
    bool hop_by_hop;
} names[] = {
    [HTTP_NAME_OTHER] = {"", 0, false},
#define NAME(id, text, hop) [HTTP_NAME_##id] = {text, sizeof(text) - 1, hop},
#include "http/names.def"
#undef NAME
};

static struct http_head *head_of_parser(llhttp_t *parser)
{
    return parser->data;
}

// In the middle of the parser's callbacks the reason is kept in the head, since the parser's own
// error text would be "callback error".
static int head_refuse(struct http_head *head, const char *why)
{
    head->why = why;
    return HPE_USER;
}

// RFC 9110, 5.6.2.
static const bool token_bytes[256] = {
    ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['!'] = true,  ['#'] = true,
    ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
};

static bool is_token(struct slice text)
{
    bool is_token = text.size > 0;
    for (size_t i = 0; i < text.size; i++) {
        is_token &= token_bytes[text.bytes[i]];
    }
    return is_token;
}

static uint8_t head_name_of(struct slice text)
{
    _Static_assert(ARRAY_COUNT(names) <= UINT8_MAX, "a field keeps its name in a byte");

    for (size_t i = 1; i < ARRAY_COUNT(names); i++) {
        if (names[i].size == text.size &&
            slice_equal_nocase(text, slice_of(names[i].text, names[i].size))) {
            return (uint8_t)i;
        }
    }
    return HTTP_NAME_OTHER;
}

static uint32_t offset_of(const struct http_head *head, const char *at)
{
    return (uint32_t)((const uint8_t *)at - head->bytes);
}

// A span is reported in pieces when it arrived in pieces; the pieces touch.
static void head_extend(struct http_head *head, uint8_t span, struct slice piece, uint32_t *span_at,
                        uint32_t *span_size)
{
    if (head->span != span) {
        *span_at = (uint32_t)(piece.bytes - head->bytes);
        *span_size = 0;
        head->span = span;
    }
    *span_size += (uint32_t)piece.size;
}

static int on_method(llhttp_t *parser, const char *at, size_t size)
{
    struct http_head *head = head_of_parser(parser);
    head_extend(head, SPAN_METHOD, slice_of(at, size), &head->method_at, &head->method_size);
    return HPE_OK;
}

static int on_url(llhttp_t *parser, const char *at, size_t size)
{
    struct http_head *head = head_of_parser(parser);
    head_extend(head, SPAN_TARGET, slice_of(at, size), &head->target_at, &head->target_size);
    if (head->target_size > head->limits.target_size) {
        head->target_is_long = true;
        return HPE_USER;
    }
    return HPE_OK;
}

static int on_status(llhttp_t *parser, const char *at, size_t size)
{
    struct http_head *head = head_of_parser(parser);
    head_extend(head, SPAN_REASON, slice_of(at, size), &head->reason_at, &head->reason_size);
    return HPE_OK;
}

static int on_field(llhttp_t *parser, const char *at, size_t size)
{
    struct http_head *head = head_of_parser(parser);
    if (head->span != SPAN_NAME) {
        if (head->field_count == http_field_count_max) {
            return HPE_USER; // reported as TOO_LARGE, since `why` is not set
        }
        head->fields[head->field_count++] = (struct http_field){.name_at = offset_of(head, at)};
        head->span = SPAN_NAME;
    }
    struct http_field *field = &head->fields[head->field_count - 1];
    if (field->name_size + size > UINT16_MAX) {
        return HPE_USER;
    }
    field->name_size = (uint16_t)(field->name_size + size);
    return HPE_OK;
}

static const char why_folded[] = "a header field is folded over several lines";

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
    struct http_head *head = head_of_parser(parser);
    ASSERT(head->field_count > 0);
    struct http_field *field = &head->fields[head->field_count - 1];
    uint32_t begin = offset_of(head, at);

    if (size == 0) {
        return HPE_OK; // an empty value is reported somewhere in the next line
    }
    if (head->span == SPAN_NAME) {
        uint32_t name_end = field->name_at + field->name_size;
        if (memchr(head->bytes + name_end, '\n', begin - name_end) != NULL) {
            return head_refuse(head, why_folded);
        }
        field->value_at = begin;
        head->span = SPAN_VALUE;
    } else if (begin != field->value_at + field->value_size) {
        return head_refuse(head, why_folded);
    }
    field->value_size += (uint32_t)size;
    return HPE_OK;
}

static struct slice head_trim(struct slice text)
{
    while (text.size > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t')) {
        text = slice_of(text.bytes + 1, text.size - 1);
    }
    while (text.size > 0 &&
           (text.bytes[text.size - 1] == ' ' || text.bytes[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

// Takes the first item off a comma-separated list.
static struct slice list_next(struct slice *list)
{
    const uint8_t *comma = list->size == 0 ? NULL : memchr(list->bytes, ',', list->size);
    size_t size = comma == NULL ? list->size : (size_t)(comma - list->bytes);
    struct slice item = head_trim(slice_of(list->bytes, size));
    size_t used = comma == NULL ? size : size + 1;

    *list = slice_of(list->bytes + used, list->size - used);
    return item;
}

static void read_connection(struct http_head *head, struct slice value, bool *close, bool *keep)
{
    while (value.size > 0) {
        struct slice item = list_next(&value);
        if (slice_is_nocase(item, "close")) {
            *close = true;
        } else if (slice_is_nocase(item, "keep-alive")) {
            *keep = true;
        } else if (item.size > 0) {
            head->names_fields = true;
        }
    }
}

static int on_value_complete(llhttp_t *parser)
{
    struct http_head *head = head_of_parser(parser);
    struct http_field *field = &head->fields[head->field_count - 1];
    struct slice name = http_field_name(head, field);

    if (head->span == SPAN_NAME) {
        field->value_at = field->name_at + field->name_size; // an empty value
    }
    head->span = SPAN_NONE;
    struct slice value = head_trim(http_field_value(head, field));
    field->value_at += (uint32_t)(value.bytes - http_field_value(head, field).bytes);
    field->value_size = (uint32_t)value.size;
    if (!is_token(name)) {
        return head_refuse(head, "a header field name has a character that is not allowed");
    }
    if (value.size > 0 && memchr(value.bytes, '\0', value.size) != NULL) {
        return head_refuse(head, "a header field has a NUL byte");
    }
    field->name = head_name_of(name);
    return HPE_OK;
}

// Stops the parser here: bodies are not its business.
static int on_headers_complete(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method = on_method,
    .on_url = on_url,
    .on_status = on_status,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
};

void http_head_start(struct http_head *head, enum http_kind kind, struct http_limits limits)
{
    // The array of fields is left as it is: field_count says how much of it means something.
    memset(head, 0, offsetof(struct http_head, fields));
    head->kind = kind;
    head->limits = limits;
    llhttp_t *parser = (void *)head->parser;
    llhttp_init(parser, kind == HTTP_KIND_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    parser->data = head;
}

// The fields that decide where the message ends, each at most once and in one spelling.
static const char *check_framing(struct http_head *head)
{
    uint32_t length_count = 0;
    uint32_t coding_count = 0;
    bool close = false;
    bool keep = false;

    for (uint32_t i = 0; i < head->field_count; i++) {
        struct slice value = http_field_value(head, &head->fields[i]);
        switch (head->fields[i].name) {
        case HTTP_NAME_CONTENT_LENGTH:
            length_count++;
            if (!slice_parse_u64(value, &head->content_length)) {
                return "content-length is not a number";
            }
            break;
        case HTTP_NAME_TRANSFER_ENCODING:
            coding_count++;
            if (!slice_is_nocase(value, "chunked")) {
                return "the transfer coding is not chunked";
            }
            break;
        case HTTP_NAME_CONNECTION:
            read_connection(head, value, &close, &keep);
            break;
        default:
            break;
        }
    }
    if (length_count + coding_count > 1) {
        return "content-length and transfer-encoding are given more than once or together";
    }
    if (coding_count > 0 && head->is_http10) {
        return "HTTP/1.0 has no transfer-encoding";
    }
    head->keep_alive = !close && (keep || !head->is_http10);
    head->framing = coding_count > 0 ? HTTP_CHUNKED : length_count > 0 ? HTTP_LENGTH : HTTP_NO_BODY;
    return NULL;
}

static const char *head_check_host(const struct http_head *head, struct slice *host)
{
    static const uint8_t refused[] = "/\\@?#,\x7f";
    uint32_t host_count = 0;

    for (uint32_t i = 0; i < head->field_count; i++) {
        if (head->fields[i].name == HTTP_NAME_HOST) {
            *host = http_field_value(head, &head->fields[i]);
            host_count++;
        }
    }
    if (host_count > 1) {
        return "host is given more than once";
    }
    if (host_count == 0 && !head->is_http10) {
        return "host is missing";
    }
    for (size_t i = 0; i < host->size; i++) {
        if (host->bytes[i] <= ' ' || memchr(refused, host->bytes[i], sizeof(refused) - 1) != NULL) {
            return "host has a character that is not allowed";
        }
    }
    return NULL;
}

// RFC 9112, 3.2: a path, for OPTIONS also `*`, or the absolute form, which must name the host that
// the Host field names: two names in one message are how caches and filters get fooled.
static const char *check_target(struct http_head *head, struct slice host)
{
    struct slice target = http_head_target(head);
    struct slice method = http_head_method(head);

    if (head->target_at != head->method_at + head->method_size + 1) {
        return "there is more than one space before the target";
    }
    if (memchr(target.bytes, '#', target.size) != NULL) {
        return "the target has a fragment";
    }
    if (target.bytes[0] == '/' || (slice_is(target, "*") && slice_is(method, "OPTIONS"))) {
        return NULL;
    }
    uint32_t scheme_size = slice_starts_with(target, "http://")    ? 7
                           : slice_starts_with(target, "https://") ? 8
                                                                   : 0;
    if (scheme_size == 0) {
        return "the target is neither a path nor an http address";
    }
    struct slice rest = slice_of(target.bytes + scheme_size, target.size - scheme_size);
    if (rest.size <= host.size || rest.bytes[host.size] != '/' || host.size == 0 ||
        !slice_equal_nocase(slice_of(rest.bytes, host.size), host)) {
        return "the target names another host than the host field";
    }
    head->target_at += scheme_size + (uint32_t)host.size;
    head->target_size -= scheme_size + (uint32_t)host.size;
    return NULL;
}

static const char *check_request(struct http_head *head)
{
    struct slice host = {0};
    const char *why = head_check_host(head, &host);

    if (why == NULL) {
        why = check_target(head, host);
    }
    const struct http_field *expect = http_head_find(head, HTTP_NAME_EXPECT);
    head->expects = expect != NULL && !head->is_http10 &&
                    slice_is_nocase(http_field_value(head, expect), "100-continue");
    return why;
}

// llhttp lets a bare LF end the first line and the head.
static bool lines_end_properly(const struct http_head *head)
{
    const uint8_t *at = head->bytes;
    const uint8_t *end = head->bytes + head->size;
    const uint8_t *line_feed;

    while ((line_feed = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (line_feed == head->bytes || line_feed[-1] != '\r') {
            return false;
        }
        at = line_feed + 1;
    }
    return true;
}

static enum status head_finish(struct http_head *head)
{
    const llhttp_t *parser = (const void *)head->parser;

    head->is_http10 = parser->http_minor == 0;
    head->status = parser->status_code;
    if (parser->http_major != 1 || parser->http_minor > 1) {
        head->why = "the version is neither HTTP/1.0 nor HTTP/1.1";
    } else if (!lines_end_properly(head)) {
        head->why = "a line ends without CR";
    } else if (head->kind == HTTP_KIND_RESPONSE && (head->status < 100 || head->status > 999)) {
        head->why = "the status is not a number of three digits";
    } else {
        head->why = check_framing(head);
    }
    if (head->why == NULL && head->kind == HTTP_KIND_REQUEST) {
        head->why = check_request(head);
    }
    return head->why == NULL ? STATUS_OK : STATUS_MALFORMED;
}

enum status http_head_feed(struct http_head *head, struct slice bytes)
{
    ASSERT(head->size == 0 && bytes.size >= head->fed);

    llhttp_t *parser = (void *)head->parser;
    size_t end = bytes.size < head->limits.head_size ? bytes.size : head->limits.head_size;
    const char *from = (const char *)bytes.bytes + head->fed;
    head->bytes = bytes.bytes;
    llhttp_errno_t error = llhttp_execute(parser, from, end - head->fed);

    if (error == HPE_PAUSED) {
        head->size = offset_of(head, llhttp_get_error_pos(parser));
        return head_finish(head);
    }
    if (error == HPE_OK) {
        head->fed = (uint32_t)end;
        return end == head->limits.head_size ? STATUS_TOO_LARGE : STATUS_AGAIN;
    }
    if (error == HPE_USER && head->why == NULL) {
        return STATUS_TOO_LARGE;
    }
    head->why = head->why != NULL ? head->why : llhttp_get_error_reason(parser);
    return STATUS_MALFORMED;
}

void http_head_response_framing(struct http_head *head, bool to_head_request)
{
    ASSERT(head->kind == HTTP_KIND_RESPONSE && head->size > 0);

    if (to_head_request || head->status < 200 || head->status == 204 || head->status == 304) {
        head->framing = HTTP_NO_BODY;
    } else if (head->framing == HTTP_NO_BODY) {
        head->framing = HTTP_UNTIL_CLOSE;
    }
}

struct slice http_head_path(const struct http_head *head)
{
    struct slice target = http_head_target(head);
    const uint8_t *query = memchr(target.bytes, '?', target.size);
    return query == NULL ? target : slice_of(target.bytes, (size_t)(query - target.bytes));
}

const struct http_field *http_head_find(const struct http_head *head, enum http_name name)
{
    for (uint32_t i = 0; i < head->field_count; i++) {
        if (head->fields[i].name == name) {
            return &head->fields[i];
        }
    }
    return NULL;
}

const struct http_field *http_head_find_text(const struct http_head *head, const char *name)
{
    struct slice wanted = slice_str(name);
    for (uint32_t i = 0; i < head->field_count; i++) {
        if (slice_equal_nocase(http_field_name(head, &head->fields[i]), wanted)) {
            return &head->fields[i];
        }
    }
    return NULL;
}

bool http_head_type_is(const struct http_head *head, const char *type)
{
    const struct http_field *field = http_head_find(head, HTTP_NAME_CONTENT_TYPE);
    struct slice wanted = slice_str(type);
    return field != NULL && field->value_size >= wanted.size &&
           slice_equal_nocase(http_head_at(head, field->value_at, (uint32_t)wanted.size), wanted);
}

bool http_field_is_hop_by_hop(const struct http_head *head, const struct http_field *field)
{
    if (names[field->name].hop_by_hop) {
        return true;
    }
    // Framing and Host stay whatever Connection says: dropping them would change the message.
    if (!head->names_fields || field->name == HTTP_NAME_CONTENT_LENGTH ||
        field->name == HTTP_NAME_HOST) {
        return false;
    }
    for (uint32_t i = 0; i < head->field_count; i++) {
        if (head->fields[i].name != HTTP_NAME_CONNECTION) {
            continue;
        }
        struct slice list = http_field_value(head, &head->fields[i]);
        while (list.size > 0) {
            if (slice_equal_nocase(list_next(&list), http_field_name(head, field))) {
                return true;
            }
        }
    }
    return false;
}
