// SPDX-License-Identifier: Apache-2.0

#include "replica/frame.h"

#include "base/base.h"

enum {
    head_size_max = 64 + frame_backend_max * 16,
    records_size_max = frame_size_max - head_size_max,
    plain_record_max = 128, // without keys
    open_size_max = wire_varint_size_max * (frame_open_max + 1),
};
_Static_assert((int)frame_open_max <= (int)frame_key_max, "the numbers take the place of keys");
_Static_assert((int)records_size_max >= (int)open_size_max + (int)plain_record_max, "likewise");
_Static_assert(records_size_max >= key_chain_size_max + plain_record_max,
               "an empty frame has room for any record");

void frame_writer_begin(struct frame_writer *writer, struct key_window *window)
{
    writer->window = window;
    writer->position = window != NULL ? window->end : 0;
    writer->backend_count = 0;
    writer->records = wire_writer_over(writer->bytes, records_size_max);
}

uint32_t frame_writer_backend(struct frame_writer *writer, const struct frame_backend *backend)
{
    // The last ones are the likeliest; there are few.
    for (uint32_t i = writer->backend_count; i-- > 0;) {
        if (writer->backends[i].identity == backend->identity &&
            writer->backends[i].era == backend->era) {
            return i;
        }
    }
    if (writer->backend_count == frame_backend_max) {
        return UINT32_MAX;
    }
    writer->backends[writer->backend_count] = *backend;
    return writer->backend_count++;
}

static bool record_has_keys(enum record_kind kind)
{
    return kind == RECORD_PREDICT || kind == RECORD_EXPECT || kind == RECORD_CONFIRM ||
           kind == RECORD_HOLD;
}

// Numbers grow, mostly: their differences are small.
static void put_open(struct wire_writer *writer, const struct frame_record *record)
{
    uint64_t last = 0;
    ASSERT(record->key_count <= frame_open_max);
    wire_put_varint(writer, record->key_count);
    for (uint32_t i = 0; i < record->key_count; i++) {
        int64_t step = (int64_t)(record->keys[i] - last);
        wire_put_varint(writer, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
        last = record->keys[i];
    }
}

static void put_load(struct wire_writer *writer, const struct record_load *load)
{
    wire_put_varint(writer, load->requests);
    wire_put_varint(writer, load->sequences);
    wire_put_varint(writer, load->queued_tokens);
    wire_put_varint(writer, load->context_tokens);
    wire_put_varint(writer, load->begun_requests);
    wire_put_varint(writer, load->begun_tokens);
}

static void put_plain(struct wire_writer *writer, const struct frame_record *record)
{
    switch (record->kind) {
    case RECORD_COUNT:
    case RECORD_NONE:
        break;
    case RECORD_PREDICT:
    case RECORD_EXPECT:
    case RECORD_CONFIRM:
        wire_put_varint(writer, record->backend);
        wire_put_varint(writer, record->number);
        wire_put_varint(writer, record->block_tokens);
        break;
    case RECORD_WITHDRAW:
        wire_put_varint(writer, record->number);
        break;
    case RECORD_OPEN:
        put_open(writer, record);
        break;
    case RECORD_EVICTED:
        wire_put_varint(writer, record->backend);
        wire_put_varint(writer, record->age);
        break;
    case RECORD_SESSION:
        wire_put_varint(writer, record->backend);
        wire_put_word(writer, record->session);
        wire_put_word(writer, record->stamp);
        break;
    case RECORD_LOAD:
        wire_put_varint(writer, record->backend);
        put_load(writer, &record->load);
        break;
    case RECORD_TRAFFIC:
        wire_put_word(writer, record->pool);
        wire_put_varint(writer, record->arrivals);
        break;
    case RECORD_SETTING:
        wire_put_varint(writer, record->backend);
        wire_put_varint(writer, record->setting.field);
        wire_put_varint(writer, record->setting.value);
        wire_put_word(writer, record->setting.stamp);
        break;
    case RECORD_SPEED:
        wire_put_varint(writer, record->backend);
        wire_put_varint(writer, record->speed.prefill_ns);
        wire_put_varint(writer, record->speed.step_ns);
        break;
    case RECORD_HOLD:
        wire_put_varint(writer, record->backend);
        wire_put_varint(writer, record->age);
        wire_put_varint(writer, record->age_s);
        break;
    case RECORD_COVER:
        wire_put_word(writer, record->router);
        wire_put_varint(writer, record->sequence);
        break;
    case RECORD_CLOCK:
        wire_put_varint(writer, record->clock);
        break;
    case RECORD_ECHO:
        wire_put_word(writer, record->router);
        wire_put_varint(writer, record->clock);
        wire_put_varint(writer, record->age);
        break;
    }
}

bool frame_writer_add(struct frame_writer *writer, const struct frame_record *record)
{
    struct wire_writer *out = &writer->records;
    bool has_keys = record_has_keys(record->kind);
    size_t most = plain_record_max + (has_keys ? key_chain_size_max : 0) +
                  (record->kind == RECORD_OPEN ? open_size_max : 0);
    if (out->capacity - out->size < most) {
        return false;
    }
    ASSERT(!has_keys || writer->window != NULL);
    wire_put_byte(out, (uint8_t)record->kind);
    // The size has three bytes, so that it can be filled in.
    size_t size_at = out->size;
    wire_put_byte(out, 0);
    wire_put_byte(out, 0);
    wire_put_byte(out, 0);
    put_plain(out, record);
    if (has_keys) {
        (void)key_window_write(writer->window, out, record->keys, record->key_count);
    }
    size_t size = out->size - size_at - 3;
    out->bytes[size_at] = (uint8_t)((size & 0x7f) | 0x80);
    out->bytes[size_at + 1] = (uint8_t)((size >> 7 & 0x7f) | 0x80);
    out->bytes[size_at + 2] = (uint8_t)(size >> 14);
    ASSERT(!out->is_full);
    return true;
}

size_t frame_writer_end(struct frame_writer *writer, const struct frame_head *head,
                        uint8_t out[frame_size_max])
{
    struct wire_writer frame = wire_writer_over(out, frame_size_max);
    wire_put_byte(&frame, frame_version);
    wire_put_byte(&frame, (uint8_t)head->kind);
    wire_put_word(&frame, head->space);
    wire_put_varint(&frame, head->sequence);
    wire_put_varint(&frame, writer->position);
    wire_put_byte(&frame, (uint8_t)(writer->window != NULL ? writer->window->bits
                                                           : (uint32_t)key_window_bits_min));
    wire_put_varint(&frame, head->part);
    wire_put_byte(&frame, (uint8_t)(head->is_last | head->is_whole << 1));
    wire_put_varint(&frame, writer->backend_count);
    for (uint32_t i = 0; i < writer->backend_count; i++) {
        wire_put_word(&frame, writer->backends[i].identity);
        wire_put_word(&frame, writer->backends[i].era);
    }
    wire_put_bytes(&frame, writer->bytes, writer->records.size);
    ASSERT(!frame.is_full);
    frame_writer_begin(writer, writer->window);
    return frame.size;
}

size_t frame_write_ask(uint64_t space, uint64_t number, uint32_t part, uint8_t out[frame_size_max])
{
    struct wire_writer frame = wire_writer_over(out, frame_size_max);
    wire_put_byte(&frame, frame_version);
    wire_put_byte(&frame, FRAME_ASK);
    wire_put_word(&frame, space);
    wire_put_varint(&frame, number);
    wire_put_varint(&frame, part);
    return frame.size;
}

bool frame_read_head(struct wire_reader *reader, struct frame_head *head)
{
    if (wire_take_byte(reader) != frame_version) {
        return false;
    }
    uint8_t kind = wire_take_byte(reader);
    *head = (struct frame_head){.kind = (enum frame_kind)kind};
    head->space = wire_take_word(reader);
    head->sequence = wire_take_varint(reader);
    if (kind == FRAME_ASK) {
        head->part = wire_take_count(reader, UINT32_MAX);
        return !reader->is_bad;
    }
    if (kind != FRAME_BATCH && kind != FRAME_SNAPSHOT) {
        return false;
    }
    head->position = wire_take_varint(reader);
    head->bits = wire_take_byte(reader);
    head->part = wire_take_count(reader, UINT32_MAX);
    uint8_t flags = wire_take_byte(reader);
    head->is_last = (flags & 1) != 0;
    head->is_whole = (flags & 2) != 0;
    head->backend_count = wire_take_count(reader, frame_backend_max);
    for (uint32_t i = 0; i < head->backend_count; i++) {
        head->backends[i].identity = wire_take_word(reader);
        head->backends[i].era = wire_take_word(reader);
    }
    return !reader->is_bad && head->bits >= key_window_bits_min &&
           head->bits <= key_window_bits_max && head->position < UINT64_MAX / 2;
}

static void take_open(struct wire_reader *reader, uint64_t *numbers, struct frame_record *out)
{
    uint64_t last = 0;
    out->keys = numbers;
    out->key_count = wire_take_count(reader, frame_open_max);
    for (uint32_t i = 0; i < out->key_count; i++) {
        uint64_t step = wire_take_varint(reader);
        last += step >> 1 ^ (0 - (step & 1));
        numbers[i] = last;
    }
}

static void take_load(struct wire_reader *reader, struct record_load *load)
{
    load->requests = wire_take_count(reader, UINT32_MAX);
    load->sequences = wire_take_count(reader, UINT32_MAX);
    load->queued_tokens = wire_take_varint(reader);
    load->context_tokens = wire_take_varint(reader);
    load->begun_requests = wire_take_varint(reader);
    load->begun_tokens = wire_take_varint(reader);
}

static uint32_t take_backend(struct wire_reader *reader, const struct frame_head *head)
{
    uint32_t backend = wire_take_count(reader, frame_backend_max);
    if (backend >= head->backend_count) {
        wire_turn_bad(reader);
        return 0;
    }
    return backend;
}

// False: a kind that is not known here.
static bool take_plain(struct wire_reader *reader, const struct frame_head *head,
                       struct frame_record *out)
{
    switch (out->kind) {
    case RECORD_PREDICT:
    case RECORD_EXPECT:
    case RECORD_CONFIRM:
        out->backend = take_backend(reader, head);
        out->number = wire_take_varint(reader);
        out->block_tokens = wire_take_count(reader, UINT16_MAX);
        return true;
    case RECORD_WITHDRAW:
        out->number = wire_take_varint(reader);
        return true;
    case RECORD_EVICTED:
        out->backend = take_backend(reader, head);
        out->age = wire_take_count(reader, UINT32_MAX);
        return true;
    case RECORD_SESSION:
        out->backend = take_backend(reader, head);
        out->session = wire_take_word(reader);
        out->stamp = wire_take_word(reader);
        return true;
    case RECORD_LOAD:
        out->backend = take_backend(reader, head);
        take_load(reader, &out->load);
        return true;
    case RECORD_TRAFFIC:
        out->pool = wire_take_word(reader);
        out->arrivals = wire_take_count(reader, UINT32_MAX);
        return true;
    case RECORD_SETTING:
        out->backend = take_backend(reader, head);
        out->setting.field = (enum setting_field)wire_take_byte(reader);
        out->setting.value = wire_take_varint(reader);
        out->setting.stamp = wire_take_word(reader);
        return out->setting.field < SETTING_COUNT; // a later version may have more
    case RECORD_SPEED:
        out->backend = take_backend(reader, head);
        out->speed.prefill_ns = wire_take_varint(reader);
        out->speed.step_ns = wire_take_varint(reader);
        return true;
    case RECORD_HOLD:
        out->backend = take_backend(reader, head);
        out->age = wire_take_count(reader, UINT32_MAX);
        out->age_s = wire_take_count(reader, UINT32_MAX);
        return true;
    case RECORD_COVER:
        out->router = wire_take_word(reader);
        out->sequence = wire_take_varint(reader);
        return true;
    case RECORD_CLOCK:
        out->clock = wire_take_varint(reader);
        return true;
    case RECORD_ECHO:
        out->router = wire_take_word(reader);
        out->clock = wire_take_varint(reader);
        out->age = wire_take_count(reader, UINT32_MAX);
        return true;
    case RECORD_OPEN:
        return true;
    case RECORD_COUNT:
    case RECORD_NONE:
        break;
    }
    return false;
}

bool frame_read_record(struct wire_reader *reader, const struct frame_head *head,
                       struct key_window *window, uint64_t *keys, struct frame_record *out)
{
    while (reader->left > 0) {
        *out = (struct frame_record){.kind = (enum record_kind)wire_take_byte(reader),
                                     .is_known = true};
        struct wire_reader part = wire_take_part(reader, wire_take_count(reader, frame_size_max));
        if (reader->is_bad) {
            return false;
        }
        if (!take_plain(&part, head, out)) {
            continue;
        }
        if (out->kind == RECORD_OPEN) {
            take_open(&part, keys, out);
        }
        if (record_has_keys(out->kind) && !part.is_bad) {
            out->keys = keys;
            out->key_count = key_window_read(window, &part, keys, frame_key_max, &out->is_known);
        }
        if (part.is_bad) {
            wire_turn_bad(reader);
            return false;
        }
        return true;
    }
    return false;
}
